"""Profiling: every cell, then the least sure ones; goes on after an end; real commands under a quota."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gang.small_job import write_job
from pilotage.gang.profile import read_profile
from pilotage.gang.profiling import Cell, ProfileFile, measure, next_cell, spread_of, unsureness
from pilotage.model.errors import InputError

CELLS = [Cell("a", size, share) for size in (10.0, 20.0) for share in (100, 200)]


class Stopwatch:
    """Gives durations that are sure for all cells but one."""

    def __init__(self, stop_after: int = 1000) -> None:
        self.asked: list[Cell] = []
        self._stop_after = stop_after

    def measure(self, cell: Cell) -> float:
        if len(self.asked) == self._stop_after:
            raise KeyboardInterrupt
        self.asked.append(cell)
        wobble = 0.5 * (len(self.asked) % 2) if cell == CELLS[2] else 0.0
        return 1.0 + wobble


def test_every_cell_once_then_the_least_sure(tmp_path: Path) -> None:
    watch = Stopwatch()
    profile = measure(ProfileFile(tmp_path / "profile.csv"), CELLS, watch, 20, lambda done, total: None)
    assert watch.asked[:4] == CELLS
    tries = Counter(watch.asked)
    assert tries[CELLS[2]] == max(tries.values())
    assert len(profile.seconds_M) == 20
    spread = spread_of(profile, "a")
    assert spread.tries_SC.sum() == 20
    assert spread.unsure_SC[1, 0] == spread.unsure_SC.max()


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    with pytest.raises(KeyboardInterrupt):
        measure(ProfileFile(path), CELLS, Stopwatch(stop_after=3), 8, lambda done, total: None)
    path.write_text(path.read_text() + "a, 20, 200, 1.2")  # cut off
    watch = Stopwatch()
    measure(ProfileFile(path), CELLS, watch, 8, lambda done, total: None)
    assert len(watch.asked) == 5
    assert watch.asked[0] == CELLS[3]
    assert len(read_profile(path).seconds_M) == 8


def test_more_tries_make_surer_and_spread_less_sure() -> None:
    assert unsureness([1.0, 1.0, 1.0]) < unsureness([1.0, 1.0]) < unsureness([1.0])
    assert unsureness([1.0, 2.0]) > unsureness([1.0, 1.0])
    assert next_cell(CELLS, {cell: [1.0, 1.0] for cell in CELLS} | {CELLS[1]: [1.0]}) == CELLS[1]


def test_too_few_measurements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 measurements of 4 cells"):
        measure(ProfileFile(tmp_path / "p.csv"), CELLS, Stopwatch(), 3, lambda done, total: None)


def profile(job: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pilotage", "gang", "profile", str(job), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


def test_real_commands(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "sleep 0.01", "two": "i=0; while [ $i -lt {size} ]; do i=$((i+1)); done"})
    out = tmp_path / "out"
    done = profile(
        job, "--sizes", "10,2000", "--shares", "100-200:100", "--measurements", "10", "--out", str(out), "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["measurements"] == 10
    assert [task["cells"] for task in found["tasks"]] == [4, 4]
    assert "unsureness" in (out / "report.html").read_text()
    measured = read_profile(out / "profile.csv")
    assert (measured.of_task("one")[2] >= 0.01).all()


def test_a_command_that_fails_ends_it_with_the_reason(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "exit 4"})
    done = profile(job, "--sizes", "10", "--shares", "100", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "one at size 10, share 100: ended with code 4" in done.stderr
    bad = profile(job, "--sizes", "ten", "--shares", "100", "--out", str(tmp_path / "other"))
    assert bad.returncode == 2
    assert "--sizes: cannot read 'ten'" in bad.stderr
