"""Measured durations of tasks by size of the work and CPU share.

A profile is a CSV file with the columns `Task Name, Workload Size, CPU Shares, Duration` (milli CPU, seconds), a row
per measurement; a cell of the grid may have been measured several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.csv_files import number_in, rows_of
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FloatArray, IntArray

COLUMNS: Final = ("Task Name", "Workload Size", "CPU Shares", "Duration")


@dataclass(frozen=True)
class Profile:
    """Measurements in the order in which they were made."""

    tasks: tuple[str, ...]
    task_M: IntArray
    size_M: FloatArray
    share_M: FloatArray  # milli CPU
    seconds_M: FloatArray
    file: str = "profile"

    def of_task(self, task: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sizes, shares and durations of one task."""
        if task not in self.tasks:
            raise UnknownNameError("task", task, self.tasks, file=self.file)
        own_M = self.task_M == self.tasks.index(task)
        return self.size_M[own_M], self.share_M[own_M], self.seconds_M[own_M]

    def grid(self, task: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sizes, shares and the mean duration of every cell of one task; a cell without measurement is refused."""
        size_M, share_M, seconds_M = self.of_task(task)
        size_S, s_M = np.unique(size_M, return_inverse=True)
        share_C, c_M = np.unique(share_M, return_inverse=True)
        shape = (len(size_S), len(share_C))
        cell_M = s_M * shape[1] + c_M
        count = np.bincount(cell_M, minlength=shape[0] * shape[1])
        if not count.all():
            s, c = divmod(int(np.argmin(count)), shape[1])
            raise InputError(
                f"{task} has no measurement at size {size_S[s]:g} and share {share_C[c]:g}",
                file=self.file,
                expected="one for every size and share of the task",
            )
        total = np.bincount(cell_M, seconds_M, minlength=shape[0] * shape[1])
        return size_S, share_C, (total / count).reshape(shape)


def read_profile(path: Path) -> Profile:
    rows = rows_of(path)
    row, header = next(rows, (1, []))
    for name in COLUMNS:
        if name not in header:
            raise InputError(f"no column {name!r}", file=path, row=row, expected=", ".join(COLUMNS))
    place = [header.index(name) for name in COLUMNS]
    names: dict[str, int] = {}
    found: list[tuple[int, float, float, float]] = []
    for row, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} cells", file=path, row=row, expected=f"{len(header)}, as in the header")
        task, *numbers = (cells[k] for k in place)
        if not task:
            raise InputError("is missing", file=path, row=row, field=COLUMNS[0], expected="the name of a task")
        size, share, seconds = (
            number_in(cell, path, row, name, low=0.0) for cell, name in zip(numbers, COLUMNS[1:], strict=True)
        )
        if share == 0:
            raise InputError("is zero", file=path, row=row, field=COLUMNS[2], expected="milli CPU above 0")
        found.append((names.setdefault(task, len(names)), size, share, seconds))
    if not found:
        raise InputError("has no measurements", file=path, expected="a row per measurement")
    task_M, size_M, share_M, seconds_M = (np.array(column) for column in zip(*found, strict=True))
    return Profile(tuple(names), task_M, size_M, share_M, seconds_M, str(path))
