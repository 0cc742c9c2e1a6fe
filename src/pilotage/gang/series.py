"""Time series that drive the sizes of the work: files with the columns `timestamp,value`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.csv_files import number_in, rows_of
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray

COLUMNS: Final = ("timestamp", "value")
MOST_VALUES: Final = 1_000_000


@dataclass(frozen=True)
class Series:
    """Values at rising times (seconds since 1970, read as UTC). Times may leave gaps."""

    name: str
    time_N: FloatArray
    value_N: FloatArray

    def __len__(self) -> int:
        return len(self.value_N)

    @cached_property
    def step(self) -> float:
        """Seconds from one value to the next, as a rule: the median, which gaps do not move."""
        return float(np.median(np.diff(self.time_N))) if len(self) > 1 else 1.0

    def until(self, end: int) -> Series:
        """The first `end` values."""
        return Series(self.name, self.time_N[:end], self.value_N[:end])

    def before(self, time_X: FloatArray, known_X: IntArray) -> IntArray:
        """Number of the last value at or before each time, among the first `known` ones; -1 where there is none.

        A quarter of a step of tolerance: clocks of recorders drift.
        """
        found_X = np.searchsorted(self.time_N, time_X + 0.25 * self.step, side="right") - 1
        return np.minimum(found_X, known_X - 1)


def read_series(path: Path, most: int = MOST_VALUES) -> Series:
    """The first `most` values of a file."""
    rows = rows_of(path)
    row, header = next(rows, (1, []))
    if tuple(header) != COLUMNS:
        raise InputError(f"columns {','.join(header)[:80]!r}", file=path, row=row, expected=",".join(COLUMNS))
    times: list[float] = []
    values: list[float] = []
    for row, cells in rows:
        if len(cells) != len(COLUMNS):
            raise InputError(f"{len(cells)} cells", file=path, row=row, expected="a timestamp and a value")
        times.append(_seconds(cells[0], path, row))
        values.append(number_in(cells[1], path, row, "value"))
        if len(times) > 1 and times[-1] <= times[-2]:
            raise InputError(f"{cells[0]!r} is not after the one before", file=path, row=row, field="timestamp")
        if len(values) == most:
            break
    if len(values) < 2:
        raise InputError(f"has {len(values)} values", file=path, expected="at least two")
    return Series(path.stem, np.array(times), np.array(values))


def _seconds(cell: str, path: Path, row: int) -> float:
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError as error:
        raise InputError(
            f"{cell[:40]!r}", file=path, row=row, field="timestamp", expected="a time such as 2014-07-01 00:30:00"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
