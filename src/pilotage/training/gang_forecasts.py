"""A forecaster that learns: a small network corrects a ridge regression, one network for all steps ahead.

It is trained once, on the values before the first row that is forecast, and then only applied. Columns are those of the
regressions (recent values, values days and weeks before, the calendar), so no value is seen before its time. When to
stop is decided on the last part of the training moments; where the network gains nothing there, the regression stays
alone. The same values and seed give the same forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss

from pilotage.gang.forecasting import Persistence, check_rows
from pilotage.gang.lag_regression import columns
from pilotage.gang.series import Series
from pilotage.model.workload import FloatArray, IntArray

FEWEST_MOMENTS = 200  # to learn from; before there are so many, the last value is the forecast
RIDGE = 10.0


@dataclass(frozen=True)
class LearnedForecaster:
    """Settings were chosen on the training part of series; rows that are forecast had no say."""

    hidden: int = 48
    epochs: int = 12
    patience: int = 3  # epochs without anything better
    batch: int = 1024
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    validation: float = 0.15  # part of the training moments, the last ones
    seed: int = 0

    name: str = "learned"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        seen = _look(series.until(first + rows - 1), first, horizon)
        if seen is None:
            return Persistence().roll(series, first, rows, horizon)
        input_THF = seen.input_OHF[first - 1 : first - 1 + rows]
        change_TH = seen.regression(input_THF)
        with _repeatable(self.seed):
            network = self._trained(seen, horizon)
            if network is not None:
                change_TH += network.over(input_THF)
        last_T = series.value_N[first - 1 : first - 1 + rows]
        forecast_TH: FloatArray = last_T[:, None] + change_TH * seen.scale_H
        return forecast_TH

    def _trained(self, seen: Seen, horizon: int) -> Correction | None:
        """None where the correction is worth nothing on moments that it did not learn from."""
        learned, shut = seen.parts(self.validation)
        missing_OH = seen.change_OH - seen.regression(seen.input_OHF)
        network = Correction(seen.input_OHF.shape[2], horizon, self.hidden)
        descent = torch.optim.Adam(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        x_OHF, y_OH = (torch.from_numpy(a.astype(np.float32)) for a in (seen.input_OHF, missing_OH))
        best, kept, without = float(np.mean(missing_OH[shut] ** 2)), None, 0
        order = torch.from_numpy(learned)
        for _ in range(self.epochs):
            for some in order[torch.randperm(len(order))].split(max(self.batch // horizon, 1)):
                descent.zero_grad()
                mse_loss(network(x_OHF[some]), y_OH[some]).backward()  # type: ignore[no-untyped-call]
                descent.step()
            with torch.no_grad():
                error = float(mse_loss(network(x_OHF[shut]), y_OH[shut]))
            if error < best:
                best, without = error, 0
                kept = {name: value.clone() for name, value in network.state_dict().items()}
            else:
                without += 1
            if without == self.patience:
                break
        if kept is None:
            return None
        network.load_state_dict(kept)
        return network


class Correction(nn.Module):
    """What a regression misses, by its columns and the step ahead; nothing at the beginning."""

    def __init__(self, inputs: int, horizon: int, hidden: int) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.zeros(horizon, hidden))
        self.inner, self.middle = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        self.outer = nn.Linear(hidden, 1)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x_XHF: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.inner(x_XHF) + self.step)
        found: torch.Tensor = self.outer(torch.relu(self.middle(hidden)))[..., 0]
        return found

    def over(self, input_THF: FloatArray) -> FloatArray:
        with torch.no_grad():
            return self(torch.from_numpy(input_THF.astype(np.float32))).numpy().astype(np.float64)  # type: ignore[no-any-return]


class Seen(NamedTuple):
    """Columns of all moments and steps ahead, scaled; what came, where it is known before the first row."""

    input_OHF: FloatArray
    change_OH: FloatArray  # of training moments, scaled; zero elsewhere
    scale_H: FloatArray
    weight_HF: FloatArray  # of the regression
    moments: IntArray  # all of whose values are known at the first row

    def regression(self, input_XHF: FloatArray) -> FloatArray:
        found_XH: FloatArray = np.einsum("xhf,hf->xh", input_XHF, self.weight_HF)
        return found_XH

    def parts(self, validation: float) -> tuple[IntArray, IntArray]:
        """Moments to learn from and, behind them, moments to decide on; between them none that are in both."""
        horizon = len(self.scale_H)
        cut = int(len(self.moments) * (1.0 - validation))
        return self.moments[: max(cut - horizon, 1)], self.moments[cut:]


def _look(known: Series, first: int, horizon: int) -> Seen | None:
    tables = [columns(known, ahead) for ahead in range(horizon)]
    end = first - horizon  # the moment with o + 1 values known has its last target at o + horizon
    since_F = np.max([table.since_F for table in tables], axis=0)
    own_F = since_F <= max(end, 0) // 2  # a column that is about something for too short a time is left out
    begin = int(since_F[own_F].max(initial=0))
    if end - begin < FEWEST_MOMENTS:
        return None
    moments = np.arange(begin, end)
    input_OHF = np.stack([table.input_OF[:, own_F] for table in tables], axis=1)
    ahead_H = np.arange(1, horizon + 1)
    change_OH = np.zeros(input_OHF.shape[:2])
    change_OH[moments] = known.value_N[moments[:, None] + ahead_H] - known.value_N[moments][:, None]
    scale_H = np.maximum(change_OH[moments].std(axis=0), 1e-12)
    change_OH /= scale_H
    level = input_OHF[moments].std(axis=0)
    input_OHF = np.where(level > 0, (input_OHF - input_OHF[moments].mean(axis=0)) / np.where(level > 0, level, 1), 1.0)
    weight_HF = np.stack([_ridge(input_OHF[moments, h], change_OH[moments, h]) for h in range(horizon)])
    return Seen(input_OHF, change_OH, scale_H, weight_HF, moments)


def _ridge(input_OF: FloatArray, change_O: FloatArray) -> FloatArray:
    held_FF = RIDGE * np.eye(input_OF.shape[1])
    weight_F: FloatArray = np.linalg.solve(input_OF.T @ input_OF + held_FF, input_OF.T @ change_O)
    return weight_F


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """One thread, so that sums have one order; the generator of others is left as it was."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
