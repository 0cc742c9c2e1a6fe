"""`pilotage evaluate`: what it prints and writes, and when it says no."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from contract.commands import pilotage, small_trace

EVEN = ("--trace", "balance-mixed-3")


def test_wins_and_losses_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    done = pilotage("evaluate", "round-robin", *EVEN)
    assert done.code == 0
    assert "seeds 42-51: test range" in done.err
    for word in ("least-allocated@1", "random@1", "lost", "worst", "balance-mixed-3"):
        assert word in done.out


def test_json_is_that_of_compare_with_findings_beside_it() -> None:
    done = pilotage("evaluate", "round-robin", *EVEN, "--baselines", "random", "--json")
    compared = pilotage("compare", *EVEN, "--policies", "round-robin,random", "--seeds", "42-51", "--json")
    content, expected = json.loads(done.out), json.loads(compared.out)
    assert [r.pop("condition") for r in content["runs"]] == ["as given"] * 20
    assert [r.pop("condition") for r in content["summary"]] == ["as given"] * len(content["summary"])
    for found in (content, expected):
        for entry in found["runs"]:
            del entry["seconds"]
        found["summary"] = [
            {key: row[key] for key in ("trace", "policy", "metric", "mean", "low", "high")} for row in found["summary"]
        ]
    assert content["runs"] == expected["runs"]
    assert content["summary"] == expected["summary"]
    assert content["seeds"] == {"test": list(range(42, 52))}
    (case,) = [case for case in content["cases"] if case["metric"] == "cpu_variance"]
    assert (case["policy"], case["baseline"]) == ("round-robin@1", "random@1")
    assert case["seeds_won"] + case["seeds_lost"] + case["seeds_tied"] == 10
    (verdict,) = [entry for entry in content["verdicts"] if entry["metric"] == "cpu_variance"]
    assert verdict["traces_won"] + verdict["traces_lost"] + verdict["traces_tied"] == 1
    assert content["missed"] == []


def test_results_and_reports_are_written_and_found_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("evaluate", "round-robin", *EVEN, "--baselines", "random", "--shift", "--out", out)
    assert pilotage(*words).code == 0
    with (out / "results.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 20
    with (out / "cases.csv").open(newline="") as file:
        conditions = {row["condition"] for row in csv.DictReader(file)}
    assert {"as given", "other traces", "half the nodes", "twice the nodes", "other loads"} == conditions
    findings = json.loads((out / "evaluation.json").read_text())
    assert len(findings["verdicts"]) == 2 * len(conditions)
    page = (out / "report.html").read_text()
    assert "Wins and losses" in page
    assert 'href="half-the-nodes/report.html"' in page
    assert (out / "half-the-nodes" / "report.html").exists()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.suffix != ".jsonl"}
    again = pilotage(*words)
    assert "runs were there already" in again.err
    assert {path: path.read_bytes() for path in before} == before


def test_a_missed_requirement_is_exit_code_1(tmp_path: Path) -> None:
    trace = small_trace(tmp_path)
    done = pilotage("evaluate", "random", *trace, "--require-win", "1", "--require-room", "50")
    assert done.code == 1
    assert "missed: random@1 won 0 of 1 traces against fgd@1" in done.err
    assert "of the room on small" in done.err
    done = pilotage("evaluate", "random", *trace, "--require-win", "0", "--json")
    assert done.code == 0
    (case,) = [case for case in json.loads(done.out)["cases"] if case["baseline"] == "fgd@1"]
    assert case["verdict"] == "lost"
    assert case["baseline_lost_before_l0_percent"] is not None


def test_runs_over_time_are_judged_by_waiting_too(tmp_path: Path) -> None:
    trace = small_trace(tmp_path)
    done = pilotage("evaluate", "random", *trace, "--protocol", "timed", "--load", "0.9,1.1", "--json")
    metrics = {case["metric"] for case in json.loads(done.out)["cases"]}
    assert metrics == {"gpu_allocation_percent", "gpu_weighted_wait"}


def test_a_scenario_names_policies_and_traces(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "apiVersion: pilotage/v1\nkind: Comparison\ntraces: [balance-1..2]\npolicies: [round-robin]\nbaseline: random\n"
    )
    content = json.loads(pilotage("evaluate", "--scenario", scenario, "--json").out)
    assert {run["trace"] for run in content["runs"]} == {"balance-1", "balance-2"}
    assert content["baselines"][0] == "random@1"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["evaluate", *EVEN], "no policy"),
        (["evaluate", "fgd"], "no trace"),
        (["evaluate", "fgd", *EVEN, "--seeds", "1-3"], "too few"),
        (["evaluate", "fgd", *EVEN, "--seeds", "20000-20020"], "--allow-training-seeds"),
        (["evaluate", "fgd", *EVEN, "--metric", "speed"], "--metric"),
        (["evaluate", "fgd", "fgd@1", *EVEN], "given twice"),
        (["evaluate", "fdg", *EVEN], "did you mean 'fgd'"),
        (["evaluate", "fgd", *EVEN, "--address", "127.0.0.1:1"], "--engine ray"),
    ],
)
def test_bad_input(words: list[str], problem: str) -> None:
    done = pilotage(*words)
    assert done.code == 2
    assert problem in done.err


def test_a_trace_range_is_one_trace_too_many_for_one_run() -> None:
    done = pilotage("simulate", "--trace", "balance-1..3")
    assert done.code == 2
    assert "names 3 traces" in done.err


def test_decisions_are_exported(tmp_path: Path) -> None:
    out = tmp_path / "data"
    done = pilotage("simulate", *EVEN, "--policy", "random", "--export-offline", out, "--json")
    assert json.loads(done.out) == {"trace": "balance-mixed-3", "policy": "random@1", "seed": 42, "decisions": 45}
    assert sorted(path.name for path in out.iterdir()) == ["dataset.json", "part-00000.parquet"]
    assert pilotage("simulate", *EVEN, "--export-offline", out).code == 2
    assert pilotage("simulate", *EVEN, "--export-offline", tmp_path / "b", "--out", tmp_path / "c").code == 2
    assert not (tmp_path / "b").exists()
