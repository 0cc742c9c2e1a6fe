"""`pilotage trace`: what goes to standard output, what to standard error, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pilotage.cli.trace import app
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import MIB, Pod, PodShape, Workload
from pilotage.workloads import openb
from pilotage.workloads.check import CODES
from pilotage.workloads.trace import Trace, load_trace, write_trace

runner = CliRunner()


def output(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code
    return result.stdout


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "two.csv"
    openb.write_nodes(nodes, [Node("n0", 8000, 64 * MIB, 1001, 2, "T4")])
    openb.write_pods(pods, Workload.of([Pod("a", PodShape(1000, MIB)), Pod("b", PodShape(2000, MIB, 1000, 2))]))
    return ["--nodes", str(nodes), "--pods", str(pods)]


@pytest.fixture
def bad(tmp_path: Path, files: list[str]) -> list[str]:
    pods = tmp_path / "bad.csv"
    openb.write_pods(pods, Workload.of([Pod("big", PodShape(9000, MIB))]))
    return [*files[:2], "--pods", str(pods)]


@pytest.mark.parametrize("command", ["check", "describe", "convert", "generate"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    assert f"Example: pilotage trace {command}" in output(command, "--help")


def test_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "arro3", "yaml", "pydantic"}
    script = f"import sys; import pilotage.cli.trace; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check(files: list[str], bad: list[str]) -> None:
    assert "P0005" in output("check", *files)
    assert "P0001" in output("check", *bad, code=1)
    found = json.loads(output("check", *bad, "--json", code=1))
    assert found["trace"] == "bad"
    assert found["findings"][0] == {
        "code": "P0001",
        "severity": "error",
        "where": "pod big",
        "message": "needs 9000 milli of CPU, the largest node has 8000",
    }


def test_check_lists_its_codes() -> None:
    assert "P0001" in output("check", "--codes")
    assert list(json.loads(output("check", "--codes", "--json"))) == list(CODES)


def test_describe(files: list[str]) -> None:
    figures = json.loads(output("describe", *files, "--json"))
    assert (figures["trace"], figures["nodes"], figures["pods"], figures["times"]) == ("two", 1, 2, None)
    assert figures["resources"][2] == {
        "resource": "gpu_milli",
        "requested": 2000,
        "capacity": 2000,
        "percent": 100.0,
        "offered_load_percent": None,
    }
    text = output("describe", "--trace", "openb-like")
    assert "G2" in text
    assert "duration median" in text


def test_names_are_not_markup(tmp_path: Path, files: list[str]) -> None:
    pods = tmp_path / "odd.csv"
    openb.write_pods(pods, Workload.of([Pod("[red]x[/nothing]", PodShape(9000, MIB))]))
    assert "[red]x" in output("check", *files[:2], "--pods", str(pods), code=1)


@pytest.mark.parametrize("to", ["openb", "kubernetes", "parquet"])
def test_convert(files: list[str], tmp_path: Path, to: str) -> None:
    out = tmp_path / "deep" / "out"
    result = json.loads(output("convert", *files, "--to", to, "--out", str(out), "--json"))
    assert (result["nodes"], result["pods"]) == (1, 2)
    written = [Path(path) for path in result["files"]]
    assert sorted(out.iterdir()) == sorted(written)
    assert result["digest"] == load_trace(Path(files[1]), Path(files[3])).digest
    if to != "parquet":
        assert load_trace(nodes=written[0], pods=written[-1]).digest == result["digest"]


def test_convert_refuses_losses_and_writes_nothing(tmp_path: Path) -> None:
    pinned = Workload.of([Pod("p", PodShape(1, constraints=Constraints(node_name="n")))])
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    write_trace(Trace.of("x", [Node("n", 8000, MIB)], pinned), source, "kubernetes")
    arguments = ["convert", "--pods", str(source), "--to", "openb", "--out", str(out)]
    with pytest.raises(InputError, match="constraints") as caught:
        output(*arguments)
    assert caught.value.file == out / "source.csv"
    assert list(out.iterdir()) == []
    output(*arguments, "--lossy")
    assert sorted(path.name for path in out.iterdir()) == ["nodes.csv", "source.csv"]


def test_generate(tmp_path: Path) -> None:
    arguments = ["generate", "openb-like-gpuspec33", "--pods", "500", "--seed", "4", "--nodes-scale", "0.1"]
    results = [json.loads(output(*arguments, "--out", str(tmp_path / name), "--json")) for name in ("one", "two")]
    assert results[0]["digest"] == results[1]["digest"]
    assert (results[0]["nodes"], results[0]["pods"]) == (121, 500)
    for name in ("nodes.csv", "openb-like-gpuspec33.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    trace = load_trace(tmp_path / "one" / "nodes.csv", tmp_path / "one" / "openb-like-gpuspec33.csv")
    assert trace.digest == results[0]["digest"]


def test_messages_go_to_standard_error(tmp_path: Path, files: list[str]) -> None:
    result = runner.invoke(app, ["generate", "openb-like", "--pods", "5", "--out", str(tmp_path / "out")])
    assert result.stdout == ""
    assert "wrote 1213 nodes and 5 pods" in result.stderr
    assert "0 errors" in runner.invoke(app, ["check", *files]).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check"], "no trace was given"),
        (["describe", "--trace", "openb-lik"], "did you mean 'openb-like'"),
        (["convert", "--trace", "openb-like", "--to", "csv", "--out", "x"], "unknown format"),
        (["generate", "openb", "--out", "x"], "unknown trace"),
        (["generate", "openb-like", "--pods", "0", "--out", "x"], "number of pods"),
        (["generate", "openb-like", "--nodes-scale", "0", "--out", "x"], "scale"),
        (["check", "--nodes", "/none.csv", "--trace", "openb-like"], "no such file"),
    ],
)
def test_bad_input_is_an_input_error(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        runner.invoke(app, arguments, catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_out_that_is_a_file(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("mine")
    with pytest.raises(InputError, match="cannot be written to"):
        runner.invoke(app, ["generate", "openb-like", "--pods", "5", "--out", str(place)], catch_exceptions=False)
    assert place.read_text() == "mine"


def test_unknown_names_carry_their_kind() -> None:
    with pytest.raises(UnknownNameError):
        runner.invoke(app, ["describe", "--trace", "x"], catch_exceptions=False)
