"""A classical state-space forecaster of statsmodels: a level, a day's rhythm as harmonics, and autoregression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pilotage.gang.forecasting import DAY, Persistence, check_rows
from pilotage.gang.series import Series
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

FEWEST_DAYS = 2.0  # values to learn a day's rhythm from


@dataclass(frozen=True)
class Classical:
    """Fitted once on the values before the first row (the latest `window`), then carried on by filtering alone."""

    window: int = 1000
    harmonics: int = 3

    name: str = "classical"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        per_day = round(DAY / series.step)
        if per_day < 4 or first < FEWEST_DAYS * per_day:
            return Persistence().roll(series, first, rows, horizon)
        model = _statsmodels()
        begin = max(0, first - self.window)
        mean, spread = float(series.value_N[begin:first].mean()), float(series.value_N[begin:first].std()) or 1.0
        scaled_N = (series.value_N[begin : first + rows - 1] - mean) / spread
        learned = first - begin
        shape = {
            "level": "local level",
            "autoregressive": 1,
            "freq_seasonal": [{"period": per_day, "harmonics": min(self.harmonics, per_day // 2)}],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that is ended early is good enough, and wanted
            fitted = model(scaled_N[:learned], **shape).fit(disp=False, maxiter=30, method="lbfgs")
        # The parameters are known before the first row; what comes later only moves the state.
        filtered = model(scaled_N, **shape).filter(fitted.params)
        return mean + spread * _from_states(filtered, learned, rows, horizon)


def _statsmodels() -> Any:
    try:
        from statsmodels.tsa.statespace.structural import UnobservedComponents
    except ImportError as error:
        raise InputError(
            "statsmodels is not installed", field="--forecasters", expected="pip install 'pilotage[gang]'"
        ) from error
    return UnobservedComponents


def _from_states(filtered: Any, learned: int, rows: int, horizon: int) -> FloatArray:
    """Forecasts from the state predicted at each moment: the state moves on by itself, the design reads it."""
    results = filtered.filter_results
    transition, design = results.transition[:, :, 0], results.design[:, :, 0]
    state = results.predicted_state[:, learned : learned + rows]  # of the value that comes next
    out_TH = np.empty((rows, horizon))
    for h in range(horizon):
        out_TH[:, h] = (design @ state)[0]
        state = transition @ state
    return out_TH
