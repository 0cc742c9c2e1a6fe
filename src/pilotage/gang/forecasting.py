"""The one interface of forecasters, and the plain ones: the last value, the value a day or a week before.

A forecaster is rolled over a series: row r holds forecasts for the values first + r, first + r + 1, .. and is made
from values before first + r alone. That it never looks ahead is tested by changing what comes later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pilotage.gang.series import Series
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

DAY: Final = 86_400.0
WEEK: Final = 7 * DAY
PERIODS: Final = {"day": DAY, "week": WEEK}


class Forecaster(Protocol):
    """Makes forecasts at `rows` moments, for `horizon` values from each moment on."""

    @property
    def name(self) -> str: ...

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        """Forecasts (T x H). `series` must hold all values before first + rows - 1."""
        ...


def check_rows(series: Series, first: int, rows: int) -> None:
    if not (first >= 1 and rows >= 1 and first + rows - 1 <= len(series)):
        raise InputError(
            f"forecasts from value {first} on at {rows} moments",
            field=series.name,
            expected=f"at least one value before the first, and {len(series)} values at the most",
        )


@dataclass(frozen=True)
class Persistence:
    """Everything stays as it is."""

    name: str = "persistence"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        last_T = series.value_N[first - 1 : first - 1 + rows]
        return np.repeat(last_T[:, None], horizon, axis=1)


@dataclass(frozen=True)
class SeasonalMean:
    """The mean of the values one, two, .. periods before; the last value where there are none yet."""

    period: float
    times: int = 1

    @property
    def name(self) -> str:
        word = next((name for name, period in PERIODS.items() if period == self.period), f"{self.period:g}s")
        return f"seasonal-{word}" + (f"-{self.times}" if self.times > 1 else "")

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        known_T = np.arange(first, first + rows)
        last_T = series.value_N[known_T - 1]
        out_TH = np.empty((rows, horizon))
        for h in range(horizon):
            target_T = series.time_N[known_T - 1] + (h + 1) * series.step
            total_T, count_T = np.zeros(rows), np.zeros(rows)
            for k in range(1, self.times + 1):
                at_T = series.before(target_T - k * self.period, known_T)
                there_T = at_T >= 0
                total_T += np.where(there_T, series.value_N[at_T], 0.0)
                count_T += there_T
            out_TH[:, h] = np.where(count_T > 0, total_T / np.maximum(count_T, 1.0), last_T)
        return out_TH
