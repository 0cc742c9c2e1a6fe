"""Several forecasters as one: at every moment and step ahead, those that have been right lately count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pilotage.gang.forecasting import DAY, WEEK, Forecaster, Persistence, SeasonalMean, check_rows
from pilotage.gang.lag_regression import VARIANTS, roll_variants
from pilotage.gang.series import Series
from pilotage.model.workload import FloatArray

PLAIN: Final[tuple[Forecaster, ...]] = (
    Persistence(),
    SeasonalMean(DAY),
    SeasonalMean(DAY, 7),
    SeasonalMean(WEEK),
    SeasonalMean(WEEK, 3),
)
# Chosen on training rows by experiments/gang/choose.py; a test compares. Leaving members of the pool out did not carry
# over from the series it was chosen on to others.
HALF_LIFE: Final = 20.0  # rows after which an error counts half
POWER: Final = 8.0  # weights are errors (root mean square) to minus this power
WARM_UP: Final = 320  # rows before the first on which weights are learned


@dataclass(frozen=True)
class Combined:
    """Regressions and plain forecasters, weighted by their errors so far."""

    power: float = POWER
    half_life: float = HALF_LIFE

    name: str = "combined"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        early = max(1, first - WARM_UP)
        warm = first - early
        rolled_VTH = np.concatenate(
            [
                roll_variants(VARIANTS, series, early, rows + warm, horizon),
                np.stack([plain.roll(series, early, rows + warm, horizon) for plain in PLAIN]),
            ]
        )
        return combine(rolled_VTH, series.value_N, early, self.power, self.half_life)[warm:]


def combine(rolled_VTH: FloatArray, value_N: FloatArray, first: int, power: float, half_life: float) -> FloatArray:
    """Weighted means; all count the same as long as no error is known."""
    error_VTH = past_errors(rolled_VTH, value_N, first, half_life)
    least_TH = np.maximum(error_VTH.min(axis=0), 1e-300)
    weight_VTH = np.maximum(error_VTH / least_TH, 1.0) ** (-power / 2)
    combined_TH: FloatArray = (weight_VTH * rolled_VTH).sum(axis=0) / weight_VTH.sum(axis=0)
    return combined_TH


def past_errors(rolled_VTH: FloatArray, value_N: FloatArray, first: int, half_life: float) -> FloatArray:
    """Sums of squared errors as far as they are known at each row, older ones counting less.

    The error of row r, step h is known once value first + r + h is.
    """
    V, T, H = rolled_VTH.shape
    keep = 0.5 ** (1.0 / half_life)
    error_VTH, steps = np.zeros((V, T, H)), np.arange(H)
    for t in range(1, T):
        judged = steps[steps < t]  # row t - 1 - h is judged at step h, by the newest value
        missed_VH = rolled_VTH[:, t - 1 - judged, judged] - value_N[first + t - 1]
        error_VTH[:, t] = keep * error_VTH[:, t - 1]
        error_VTH[:, t, judged] += missed_VH**2
    return error_VTH
