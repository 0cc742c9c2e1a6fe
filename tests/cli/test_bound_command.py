"""`pilotage bound`: one line per trace and seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage, small_trace


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return small_trace(tmp_path_factory.mktemp("trace"))


def test_json_has_one_line_per_seed_with_the_agreed_keys(files: list[str]) -> None:
    done = pilotage("bound", *files, "--seeds", "1-3", "--jobs", 1, "--json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["trace"], line["seed"]) for line in lines] == [("small", 1), ("small", 2), ("small", 3)]
    for line in lines:
        assert set(line) >= {"trace", "seed", "forced_load_percent", "bound_percent"}
        assert 0 < line["forced_load_percent"] < line["bound_percent"] <= 100
    assert len({line["forced_load_percent"] for line in lines}) == 1  # from the mean of the seeds


def test_no_run_of_fgd_is_above_the_bound(files: list[str]) -> None:
    bounds = pilotage("bound", *files, "--seeds", "1-3", "--jobs", 1, "--json")
    runs = json.loads(pilotage("compare", *files, "--policies", "fgd", "--seeds", "1-3", "--json").out)["runs"]
    for line, run in zip(bounds.out.splitlines(), runs, strict=True):
        assert run["gpu_allocation_percent"] <= json.loads(line)["bound_percent"] + 0.01  # two printed decimals


def test_the_table_shows_bound_and_fgd(files: list[str]) -> None:
    done = pilotage("bound", *files, "--seeds", "1")
    assert done.code == 0
    assert "Packing bound" in done.out
    assert "FGD" in done.out


def test_a_trace_without_gpu_has_no_bound(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "web.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,0,\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,100,0,0\n")
    done = pilotage("bound", "--nodes", nodes, "--pods", pods, "--seeds", "1", "--load", 0)
    assert done.code == 2
    assert "GPU" in done.err
