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
WARM_UP: Final = 320  # rows before the first on which weights are learned
HALF_LIFE: Final = 20.0  # rows after which an error counts half
POWER: Final = 5.0  # weights are errors (root mean square) to minus this power


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
    """Weighted means. The error of row r, step h is known once value first + r + h is."""
    V, T, H = rolled_VTH.shape
    keep = 0.5 ** (1.0 / half_life)
    error_VH, seen_H = np.zeros((V, H)), np.zeros(H)
    out_TH = np.empty((T, H))
    steps = np.arange(H)
    for t in range(T):
        rows_H = t - 1 - steps  # rows whose forecast for the newest value is judged now
        judged = steps[rows_H >= 0]
        if len(judged):
            missed_VH = rolled_VTH[:, t - 1 - judged, judged] - value_N[first + t - 1]
            error_VH[:, judged] = keep * error_VH[:, judged] + missed_VH**2
            seen_H[judged] += 1
        least_H = np.maximum(error_VH.min(axis=0), 1e-300)
        weight_VH = np.where(seen_H > 0, np.maximum(error_VH / least_H, 1.0) ** (-power / 2), 1.0)
        out_TH[t] = (weight_VH * rolled_VTH[:, t]).sum(axis=0) / weight_VH.sum(axis=0)
    return out_TH
