"""Profiling: every cell, then the least sure ones; goes on after an end; real commands under a quota."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gang.small_job import write_job
from pilotage.gang.profile import read_profile
from pilotage.gang.profiling import Cell, ProfileFile, Sampler, measure, spread_of
from pilotage.gang.unsureness import unsure_cells
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

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


def unsure(**changed: list[float]) -> FloatArray:
    """Of a grid of five sizes and four shares, all cells tried twice; some otherwise: at_SIZE_SHARE = tries."""
    sizes, shares = np.arange(10.0, 60.0, 10.0), np.arange(100.0, 500.0, 100.0)
    off = 1 + 0.05 * np.random.default_rng(1).normal(size=(5, 4, 2))
    cells = [[list(off[s, c] * size / share) for c, share in enumerate(shares)] for s, size in enumerate(sizes)]
    for name, tries in changed.items():
        s, c = (int(part) for part in name.removeprefix("at_").split("_"))
        cells[s][c] = [own * sizes[s] / shares[c] for own in tries]
    return unsure_cells(sizes, shares, cells)


def test_more_tries_make_surer_and_spread_less_sure() -> None:
    usual = unsure()
    assert unsure(at_2_1=[0.98, 1.02] * 4)[2, 1] < 0.8 * usual[2, 1]
    assert unsure(at_2_1=[0.75, 1.25])[2, 1] > 1.1 * usual[2, 1]


def test_a_model_knows_what_neighbours_say() -> None:
    usual = unsure()
    corners = usual[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert corners.mean() > 2 * usual[1:-1, 1:-1].mean()  # which have fewest
    contradicted = unsure(at_2_1=[1.6, 1.6])
    assert contradicted[2, 1] == contradicted.max() > 5 * usual[2, 1]
    # Once many tries say the same, those who contradict are asked.
    settled = unsure(at_2_1=[1.6] * 12)
    assert settled[2, 1] < 0.3 * contradicted[2, 1]
    assert (settled[[1, 3], 1] > 3 * usual[[1, 3], 1]).all()


def test_cells_without_neighbours_are_known_by_their_tries() -> None:
    alone = unsure_cells(np.array([10.0]), np.array([100.0]), [[[1.0, 1.0, 1.0]]])
    assert alone[0, 0] == pytest.approx(np.sqrt(2 * 0.1**2 / 4 / 3), rel=1e-3)


def test_the_least_sure_cell_comes_next() -> None:
    tries = {cell: [1.0, 1.0] for cell in CELLS}
    assert Sampler(CELLS).next({**tries, CELLS[1]: [1.0]}) == CELLS[1]
    other = Cell("b", 10.0, 100)
    sampler = Sampler([*CELLS, other])
    assert sampler.next({**tries, other: [1.0]}) == other
    assert sampler.next({**tries, other: [1.0] * 5, CELLS[3]: [0.8, 1.2]}) == CELLS[3]
    assert sampler.next(tries) == other  # what has not been measured at all


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
    assert found["durations"]["model"] == "monotone"
    assert all(task["interval_factor"] > 1.0 for task in found["durations"]["tasks"])
    page = (out / "report.html").read_text()
    assert "unsureness" in page
    assert "Model: monotone, chosen by predicting lines" in page
    assert "two: seconds and interval" in page
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
