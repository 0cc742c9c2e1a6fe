"""Forecasters on trial: rolled over a series, judged at each step ahead by values that come later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.classical import Classical
from pilotage.gang.combining import Combined
from pilotage.gang.forecasting import DAY, WEEK, Forecaster, Persistence, SeasonalMean
from pilotage.gang.lag_regression import LagRegression
from pilotage.gang.series import Series
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FloatArray
from pilotage.workloads.files import make_directory, replace_file

Makers = Mapping[str, Callable[[], Forecaster]]
FORECASTERS: Final[Makers] = {
    "persistence": Persistence,
    "seasonal-day": lambda: SeasonalMean(DAY),
    "seasonal-week": lambda: SeasonalMean(WEEK),
    "regression": LagRegression,
    "combined": Combined,
    "classical": Classical,
}
DEFAULT: Final = ("persistence", "seasonal-day", "seasonal-week", "regression", "combined")
SCALE: Final = 40.0  # errors are in sizes: the range of the actual values counts so much
EARLIER: Final = 320  # rows before the first by which one is chosen, where there are so many
SHOWN: Final = (1, 5, 10, 20)  # steps ahead in tables


def forecaster_by_name(name: str, others: Makers = FORECASTERS) -> Forecaster:
    """`others` are known beside those of this package, such as one that needs torch."""
    known = {**others, **FORECASTERS}
    if name not in known:
        raise UnknownNameError("forecaster", name, known, field="--forecasters")
    return known[name]()


@dataclass(frozen=True)
class Split:
    """Which values are forecast: at `rows` moments, the last of which has `horizon` values after it."""

    rows: int = 1000
    horizon: int = 20

    def first(self, series: Series) -> int:
        """Number of the first value that is forecast; those before it are there to learn from."""
        first = len(series) - (self.rows + self.horizon - 1)
        if first < 2:
            raise InputError(
                f"{series.name} has {len(series)} values",
                field="--rows",
                expected=f"at most {max(len(series) - self.horizon - 1, 0)} rows of {self.horizon} steps",
            )
        return first


@dataclass(frozen=True)
class Trial:
    """One forecaster on one series."""

    series: str
    forecaster: str
    forecast_TH: FloatArray
    rmse_H: FloatArray
    earlier_H: FloatArray  # the same on rows right before, whose values are all known at the first row


def actual_values(series: Series, first: int, rows: int, horizon: int) -> FloatArray:
    """Row r, column h: the value first + r + h."""
    found_TH: FloatArray = series.value_N[first + np.arange(rows)[:, None] + np.arange(horizon)]
    return found_TH


def rmse(forecast_TH: FloatArray, actual_TH: FloatArray) -> FloatArray:
    """Root mean square error per step ahead, as sizes: each column by the range of its actual values."""
    range_H = actual_TH.max(axis=0) - actual_TH.min(axis=0)
    error_H: FloatArray = np.sqrt(((forecast_TH - actual_TH) ** 2).mean(axis=0))
    return error_H * SCALE / np.where(range_H > 0, range_H, SCALE)


def try_forecasters(series: Series, names: Sequence[str], split: Split, others: Makers = FORECASTERS) -> list[Trial]:
    first = split.first(series)
    actual_TH = actual_values(series, first, split.rows, split.horizon)
    found = []
    for name in names:
        forecaster = forecaster_by_name(name, others)
        forecast_TH = forecaster.roll(series, first, split.rows, split.horizon)
        errors_H = rmse(forecast_TH, actual_TH), earlier_errors(forecaster, series.until(first), split.horizon)
        found.append(Trial(series.name, name, forecast_TH, *errors_H))
    return found


def earlier_errors(forecaster: Forecaster, known: Series, horizon: int) -> FloatArray:
    """On the last rows all of whose values are known, at most half of all; zero where there are none."""
    rows = min(EARLIER, len(known) // 2 - horizon + 1)
    if rows < 1:
        return np.zeros(horizon)
    first = len(known) - (rows + horizon - 1)
    return rmse(forecaster.roll(known, first, rows, horizon), actual_values(known, first, rows, horizon))


def best_of(trials: Sequence[Trial]) -> Trial:
    """The one with the least mean error before the first row, the first among equals: a choice that anybody could have
    made then. Which one turns out best on the rows themselves is another question."""
    return min(trials, key=lambda trial: float(trial.earlier_H.mean()))


def write_published(path: Path, value_TH: FloatArray) -> None:
    """A table in the published format."""
    header = "# " + ", ".join("t" if h == 0 else f"t+{h}" for h in range(value_TH.shape[1]))
    lines = "\n".join(",".join(f"{value:.6f}" for value in row) for row in value_TH)
    make_directory(path.parent)
    replace_file(path, f"{header}\n{lines}\n".encode())
