"""Experiments can be run as they are written, and stored results are what a run gives."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
import typer

from pilotage.cli import app
from pilotage.policies.registry import registered
from pilotage.sim.protocols import Timing
from pilotage.sim.scenario import read_scenario
from pilotage.sim.seeds import TEST
from pilotage.sim.specs import RunSpec, TraceSource
from pilotage.workloads.families import trace_by_name

PLACE = Path(__file__).resolve().parent.parent.parent / "experiments"
FOLDERS = sorted(path.name for path in PLACE.iterdir() if path.is_dir())
WITH_SCENARIO = [name for name in FOLDERS if (PLACE / name / "scenario.yaml").exists()]
AFRESH = 3  # rows of each table that are run again
COMMANDS = ("compare", "evaluate", "gang", "lab")
GROUPS = ("gang", "lab")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_says_what_it_is_and_how_it_is_run(name: str) -> None:
    text = (PLACE / name / "README.md").read_text()
    assert f"experiments/{name}/run" in text
    assert f"({name})" in (PLACE / "README.md").read_text()
    assert f"experiments/{name}/README.md" in (PLACE.parent / "docs" / "results.md").read_text()
    run = PLACE / name / "run"
    assert os.access(run, os.X_OK)
    assert subprocess.run(["bash", "-n", str(run)], check=False).returncode == 0


@pytest.mark.parametrize("name", FOLDERS)
def test_what_was_not_run_is_not_shown_as_a_result(name: str) -> None:
    (row,) = [line for line in (PLACE.parent / "docs" / "results.md").read_text().splitlines() if f"/{name}/" in line]
    told = " ".join((PLACE / name / "README.md").read_text().split())
    assert ("not run yet" in row) == ("None are stored yet" in told)


def command_lines(name: str) -> Iterator[list[str]]:
    text = (PLACE / name / "run").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        match = re.search(r"pilotage\"? (?=[a-z])(.*)", line.partition("#")[0])
        if match:
            yield shlex.split(match[1])


@pytest.mark.parametrize("name", FOLDERS)
def test_commands_have_the_options_they_use(name: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = [words for words in command_lines(name) if words[0] in COMMANDS]
    for words in lines:
        command = commands[words[0]]
        command = command.commands[words[1]] if words[0] in GROUPS else command
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
    assert lines or name in ("learning-curves", "service-faults")  # the one only trains, the other runs tests


@pytest.mark.parametrize("name", WITH_SCENARIO)
def test_scenarios_are_on_test_seeds(name: str) -> None:
    scenario = read_scenario(PLACE / name / "scenario.yaml")
    assert scenario.seeds
    assert set(scenario.seeds) <= set(TEST)
    assert len(scenario.seeds) >= (5 if name == "openb-baselines" else 10)
    assert scenario.traces


def test_scenarios_have_the_traces_that_are_claimed() -> None:
    def traces(name: str) -> list[str]:
        found = read_scenario(PLACE / name / "scenario.yaml").traces or ()
        return [source.name or (source.pods.stem if source.pods else "") for source in found]

    assert traces("packing") == traces("openb-baselines")
    assert traces("varied-workloads") == [f"varied-{number}" for number in range(20)]
    assert all(trace_by_name(name) for name in traces("balance"))


# Stored results


def tables() -> list[tuple[str, Path]]:
    return [(path.relative_to(PLACE).parts[0], path) for path in sorted(PLACE.rglob("results.csv"))]


def source_of(trace: str, data: Path) -> TraceSource:
    if (data / f"{trace}.csv").exists():
        return TraceSource(data / "openb_node_list_gpu_node.csv", data / f"{trace}.csv")
    return TraceSource(name=trace)


def some(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those of policies that everybody has, spread over the table; a trained one is not stored."""
    known = [row for row in rows if row["policy"] in registered()]
    return known[:: max(1, len(known) // AFRESH)][:AFRESH]


@pytest.mark.data
def test_some_stored_rows_afresh(openb_data: Path) -> None:
    compared = 0
    for name, path in tables():
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        for row in some(rows):
            source, load = source_of(row["trace"], openb_data), float(row["load"])
            spec = RunSpec(source, row["policy"], int(row["seed"]), row["protocol"], load, Timing(load=load or None))
            result, _ = spec.execute()
            figures = {key: "" if value is None else str(value) for key, value in result.figures().items()}
            for key in set(row) & set(figures) - {"lost_before_l0_percent"}:  # which depends on FGD's runs
                assert figures[key] == row[key], (name, row["trace"], row["policy"], row["seed"], key)
            compared += 1
    assert compared >= AFRESH


# What gathers results


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, PLACE / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_variances_are_set_beside_those_of_chance(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    rows = [
        {"trace": "balance-3", "policy": policy, "seed": seed, "cpu_variance": variance, "memory_variance": 0.0}
        for policy, variances in (("mine@1", (0.1, 0.3)), ("random@1", (1.0, 3.0)))
        for seed, variance in enumerate(variances)
    ]
    frame = pl.DataFrame(rows).with_columns(pl.lit(0).alias("failed_pods"))
    frame.write_csv(tmp_path / "small" / "results.csv")
    found = script("balance/tabulate.py").variances(tmp_path)
    assert found["policy"].to_list() == ["mine@1", "random@1"]
    assert found["share_of_random"].to_list() == pytest.approx([0.1, 1.0])
    assert found["seeds"].to_list() == [2, 2]


def test_curves_of_several_seeds_are_gathered(tmp_path: Path) -> None:
    for seed, last in ((1, 4.0), (2, 6.0)):
        run = tmp_path / f"dqn-{seed}"
        run.mkdir()
        (run / "settings.json").write_text(json.dumps({"agent": "dqn", "seed": seed}))
        (run / "curve.csv").write_text(f"step,loss,validation_return\n0,,1\n100,0.5,{last}\n")
    gather = script("learning-curves/gather.py")
    rows = gather.curves(tmp_path)
    assert rows.height == 4
    spread = gather.spread(rows).row(1, named=True)
    assert (spread["agent"], spread["step"], spread["seeds"]) == ("dqn", 100, 2)
    figures = [spread[f"validation_return_{name}"] for name in ("mean", "lowest", "highest")]
    assert figures == [5.0, 4.0, 6.0]
    with pytest.raises(SystemExit, match=r"no training with a curve\.csv"):
        gather.curves(tmp_path / "empty")
