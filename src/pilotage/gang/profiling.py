"""Measuring how long tasks take by size and share: first every cell once, then again where a model is least sure.

Each measurement is a line of the profile, on disk before the next begins: a profile that was ended goes on.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from pilotage.gang.profile import COLUMNS, Profile, read_profile
from pilotage.gang.quota import Quota
from pilotage.gang.unsureness import unsure_cells
from pilotage.gang.working import end_session, start_work
from pilotage.model.errors import InputError, PilotageError
from pilotage.model.workload import FloatArray


class ProfilingError(PilotageError):
    """A command that cannot be measured."""

    exit_code = 1


@dataclass(frozen=True)
class Cell:
    """What is measured: a task at a size of the work and a share (milli CPU)."""

    task: str
    size: float
    share: int


class Runner(Protocol):
    """Carries out one measurement."""

    def measure(self, cell: Cell) -> float: ...


@dataclass(frozen=True)
class QuotaRunner:
    """Runs the command of a task in a control group."""

    command: Callable[[str, float], list[str]]  # of task and size
    quota: Quota
    timeout: float = 3600.0

    def measure(self, cell: Cell) -> float:
        self.quota.set(cell.share)
        began = time.monotonic()
        process = start_work(self.quota.command(self.command(cell.task, cell.size)))
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise ProfilingError(f"{cell.task} at size {cell.size:g}, share {cell.share}: not done in time") from None
        finally:
            seconds = time.monotonic() - began
            end_session(process)
            self.quota.end()
        if code:
            raise ProfilingError(f"{cell.task} at size {cell.size:g}, share {cell.share}: ended with code {code}")
        return seconds


class ProfileFile:
    """A profile that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tries: dict[Cell, list[float]] = {}
        if path.exists():
            self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(", ".join(COLUMNS) + "\n")

    def _read(self) -> None:
        text = self.path.read_text()
        if text and not text.endswith("\n"):  # a line that was cut off by a kill is measured again
            text = text[: text.rfind("\n") + 1]
            partial = self.path.with_suffix(".partial")
            partial.write_text(text)
            partial.replace(self.path)
        if text.count("\n") > 1:
            known = read_profile(self.path)
            for task, size, share, seconds in zip(
                known.task_M, known.size_M, known.share_M, known.seconds_M, strict=True
            ):
                self.tries.setdefault(Cell(known.tasks[task], float(size), int(share)), []).append(float(seconds))

    def add(self, cell: Cell, seconds: float) -> None:
        self.tries.setdefault(cell, []).append(seconds)
        with self.path.open("a") as stream:
            stream.write(f"{cell.task}, {cell.size:g}, {cell.share}, {seconds:.6f}\n")
            stream.flush()
            os.fsync(stream.fileno())


class Sampler:
    """Which cell to measure next."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._tasks = tuple(dict.fromkeys(cell.task for cell in cells))
        self._known: dict[str, tuple[object, dict[Cell, float]]] = {}  # tries it was found from, unsureness

    def next(self, tries: Mapping[Cell, Sequence[float]]) -> Cell:
        """A cell without measurement, else the one the model is least sure of; the first among equals."""
        missing = next((cell for cell in self._cells if cell not in tries), None)
        if missing is not None:
            return missing
        unsure = {cell: value for task in self._tasks for cell, value in self._unsure(task, tries).items()}
        return max(self._cells, key=lambda cell: unsure[cell])

    def _unsure(self, task: str, tries: Mapping[Cell, Sequence[float]]) -> dict[Cell, float]:
        """Of the cells of a task; found anew only when it was measured."""
        own = [cell for cell in self._cells if cell.task == task]
        seen = tuple(tuple(tries[cell]) for cell in own)
        if self._known.get(task, ((), {}))[0] != seen:
            sizes, shares = sorted({cell.size for cell in own}), sorted({cell.share for cell in own})
            grid = [[Cell(task, size, share) for share in shares] for size in sizes]
            tries_SC = [[tries[cell] for cell in row] for row in grid]
            unsure_SC = unsure_cells(np.array(sizes), np.array(shares, np.float64), tries_SC)
            found = {cell: float(unsure_SC[s, c]) for s, row in enumerate(grid) for c, cell in enumerate(row)}
            self._known[task] = seen, found
        return self._known[task][1]


def measure(
    file: ProfileFile, cells: Sequence[Cell], runner: Runner, total: int, advance: Callable[[int, int], None]
) -> Profile:
    """Until there are `total` measurements of these cells."""
    if total < len(cells):
        raise InputError(f"{total} measurements of {len(cells)} cells", field="--measurements", expected="one each")
    wanted, sampler = set(cells), Sampler(cells)
    while (done := sum(len(own) for cell, own in file.tries.items() if cell in wanted)) < total:
        advance(done, total)
        cell = sampler.next(file.tries)
        file.add(cell, runner.measure(cell))
    return read_profile(file.path)


@dataclass(frozen=True)
class Spread:
    """Mean duration and how unsure the model is of it, cell by cell of one task (S sizes x C shares)."""

    size_S: FloatArray
    share_C: FloatArray
    mean_SC: FloatArray
    unsure_SC: FloatArray
    tries_SC: FloatArray


def spread_of(profile: Profile, task: str) -> Spread:
    size_S, share_C, mean_SC = profile.grid(task)
    size_M, share_M, seconds_M = profile.of_task(task)
    own = [[seconds_M[(size_M == size) & (share_M == share)] for share in share_C] for size in size_S]
    tries_SC = np.array([[float(len(tries)) for tries in row] for row in own])
    return Spread(size_S, share_C, mean_SC, unsure_cells(size_S, share_C, own), tries_SC)
