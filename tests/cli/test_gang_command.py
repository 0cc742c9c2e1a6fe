"""`pilotage gang`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage


@pytest.mark.data
def test_the_published_table(gang_data: Path, tmp_path: Path) -> None:
    done = pilotage("gang", "compare", "--published", "--data", gang_data, "--json", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    runs = json.loads(done.out)["runs"]
    keys = {"strategy", "forecast", "rows", "bare", "redivisions", "total", "seconds"}
    assert all(set(run) >= keys for run in runs)
    found = {(run["strategy"], run["forecast"], run["rows"], run["penalty"]): run["total"] for run in runs}
    assert found["dynamic-mpc(10)", "stored", "0-399", 15.0] == pytest.approx(49407.93, abs=5e-3)
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [run["total"] for run in stored["runs"]] == [run["total"] for run in runs]
    assert "seconds" not in stored["runs"][0]
    assert len((tmp_path / "out" / "results.csv").read_text().splitlines()) == len(runs) + 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to compare"),
        (("--published",), "--data: is missing"),
        (("--published", "--data", "nowhere"), "nowhere/workload_profiling.csv: cannot be read"),
        (("--published", "--data", "nowhere", "--seeds", "1"), "--seeds: has no effect on the published table"),
        (("--published", "--data", "nowhere", "--perfect"), "--perfect: has no effect on the published table"),
        (("job.yaml", "--data", "nowhere"), "--data: is of the published job; expected a job file or --data, not both"),
    ],
)
def test_what_is_missing_is_said(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = pilotage("gang", "compare", *arguments, "--out", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_a_job_of_ones_own(tmp_path: Path) -> None:
    from gang.small_job import write_job

    job = write_job(tmp_path, {"one": "true", "two": "true"})
    out = tmp_path / "out"
    options = ("--strategies", "equal-split,dynamic-mpc(3),pilotage", "--seeds", "0-1", "--sweep", "penalty=0,1")
    done = pilotage("gang", "compare", job, *options, "--out", out, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [run["strategy"] for run in found["runs"]] == ["equal-split", "dynamic-mpc(3)", "pilotage", "pilotage"]
    assert {entry["value"] for entry in found["sweeps"]} == {0.0, 1.0}
    assert all(run["bare"] >= found["bound"] for run in found["runs"])
    page = (out / "report.html").read_text()
    assert "Divisions over time" in page
    assert "Total time by penalty" in page
    assert len((out / "supersteps.csv").read_text().splitlines()) == 4 * 40 + 1


def test_forecasts_as_published(tmp_path: Path) -> None:
    from gang.small_job import write_job

    write_job(tmp_path, {"one": "true", "two": "true"})
    files = (tmp_path / "one.csv", tmp_path / "two.csv")
    out = tmp_path / "out"
    done = pilotage("gang", "forecast", *files, "--rows", 50, "--horizon", 6, "--out", out, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["series"]
    assert {entry["series"] for entry in found} == {"one", "two"}
    assert all(len(entry["rmse"]) == 6 for entry in found)
    assert sum(entry["chosen"] for entry in found) == 2
    assert len((out / "forecasts" / "one.csv").read_text().splitlines()) == 51
    short = pilotage("gang", "forecast", *files, "--rows", 500)
    assert short.code == 2
    assert "--rows: one has 260 values" in short.err


def test_nothing_better_than_persistence_is_said(tmp_path: Path) -> None:
    import numpy as np

    walk = np.random.default_rng(2).normal(size=300).cumsum()
    lines = [f"2025-01-{1 + h // 24:02d} {h % 24:02d}:00:00,{value:.4f}" for h, value in enumerate(walk)]
    (tmp_path / "walk.csv").write_text("\n".join(["timestamp,value", *lines]) + "\n")
    options = ("--rows", 100, "--horizon", 5, "--forecasters", "persistence,seasonal-day,seasonal-week")
    done = pilotage("gang", "forecast", tmp_path / "walk.csv", *options)
    assert done.code == 0, done.err
    assert "walk: nothing is better than persistence." in done.out


def test_a_list_of_no_forecasters(tmp_path: Path) -> None:
    from gang.small_job import write_job

    write_job(tmp_path, {"one": "true"})
    done = pilotage("gang", "forecast", tmp_path / "one.csv", "--forecasters", ",")
    assert (done.code, done.out) == (2, "")
    assert "--forecasters: ',' names none" in done.err


def test_forecasts_that_come_true_stand_beside_the_others(tmp_path: Path) -> None:
    from gang.small_job import write_job

    job = write_job(tmp_path, {"one": "true", "two": "true"})
    out = tmp_path / "out"
    done = pilotage("gang", "compare", job, "--strategies", "dynamic-mpc(3),exppo", "--perfect", "--out", out, "--json")
    assert done.code == 0, done.err
    totals = {(run["strategy"], run["forecast"]): run["total"] for run in json.loads(done.out)["runs"]}
    name, total = min(((s, t) for (s, f), t in totals.items() if f == "combined"), key=lambda pair: pair[1])
    page = (out / "report.html").read_text()
    assert f"<h1>{name} takes {total:,.0f} s" in page  # not a mean with forecasts that come true
    assert "<h3>dynamic-mpc(3), perfect</h3>" in page
    assert "<h3>dynamic-mpc(3)</h3>" in page


def test_the_next_division(tmp_path: Path) -> None:
    from gang.small_job import write_job

    job = write_job(tmp_path, {"one": "true", "two": "true"}, extra="    most: 200m\n")
    done = pilotage("gang", "plan", job, "--superstep", 5, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["keep"] is False
    assert list(found["shares"]) == ["one", "two"]
    assert found["shares"]["two"] <= 200
    assert found["exact_shares"]["two"] <= 200
    assert sum(found["shares"].values()) <= 500
    assert found["exact_seconds"] <= found["seconds"]
    kept = pilotage("gang", "plan", job, "--superstep", 5, "--current", "300,200", "--json")
    assert json.loads(kept.out)["shares"] == {"one": 300, "two": 200} or not json.loads(kept.out)["keep"]
    for current, said in (
        ("300", "1 shares"),
        ("a,b", "cannot read 'a,b'"),
        ("50,50", "at least 100 each"),
        ("9" * 20 + ",1", "at least"),
    ):
        bad = pilotage("gang", "plan", job, "--current", current)
        assert bad.code == 2
        assert said in bad.err
