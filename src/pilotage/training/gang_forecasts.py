"""A forecaster that learns: small networks correct a ridge regression, each for all steps ahead.

It is trained once, on the values before the first row that is forecast, and then only applied. Columns are those of the
regressions (recent values, values days and weeks before, the calendar), so no value is seen before its time. For how
long to train is decided on the last part of the training moments, from which nothing is learned for it; where networks
gain nothing there, the regression stays alone. The same values and seed give the same forecasts.
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


@dataclass(frozen=True)
class LearnedForecaster:
    """Settings were chosen on the training part of series; rows that are forecast had no say."""

    members: int = 3  # networks, whose mean counts
    hidden: int = 48
    epochs: int = 30  # at the most
    batch: int = 48  # moments
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3
    ridge: float = 10.0
    validation: float = 0.2  # part of the training moments, the last ones
    seed: int = 0

    name: str = "learned"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        check_rows(series, first, rows)
        seen = _look(series.until(first + rows - 1), first, horizon)
        if seen is None:
            return Persistence().roll(series, first, rows, horizon)
        input_THF = seen.input_OHF[first - 1 : first - 1 + rows]
        weight_HF = seen.regression(seen.moments, self.ridge)
        change_TH = _applied(weight_HF, input_THF)
        with _repeatable(self.seed):
            epochs = self._epochs(seen)
            if epochs:
                *_, network = self._trained(seen, seen.moments, weight_HF, epochs)
                change_TH += network.over(input_THF)
        last_T = series.value_N[first - 1 : first - 1 + rows]
        forecast_TH: FloatArray = last_T[:, None] + change_TH * seen.scale_H
        return forecast_TH

    def _epochs(self, seen: Seen) -> int:
        """After how many the error on moments that were not learned from is least; 0 where it never falls."""
        learned, shut = seen.parts(self.validation)
        weight_HF = seen.regression(learned, self.ridge)
        missing_OH = seen.change_OH[shut] - _applied(weight_HF, seen.input_OHF[shut])
        errors = [float(np.mean(missing_OH**2))]
        for network in self._trained(seen, learned, weight_HF, self.epochs):
            errors.append(float(np.mean((missing_OH - network.over(seen.input_OHF[shut])) ** 2)))
        return int(np.argmin(errors))

    def _trained(self, seen: Seen, moments: IntArray, weight_HF: FloatArray, epochs: int) -> Iterator[Corrections]:
        """The networks after each epoch, always the same object."""
        network = Corrections(self.members, seen.input_OHF.shape[2], len(seen.scale_H), self.hidden)
        descent = torch.optim.Adam(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        missing_OH = seen.change_OH[moments] - _applied(weight_HF, seen.input_OHF[moments])
        x_OHF, y_OH = _tensor(seen.input_OHF[moments]), _tensor(missing_OH)
        for _ in range(epochs):
            for some in torch.split(torch.randperm(len(moments)), self.batch):
                descent.zero_grad()
                found = network(x_OHF[some])
                mse_loss(found, y_OH[some].expand(found.shape)).backward()  # type: ignore[no-untyped-call]
                descent.step()
            yield network


class Corrections(nn.Module):
    """What a regression misses, by its columns and the step ahead (M networks); nothing at the beginning."""

    def __init__(self, members: int, inputs: int, horizon: int, hidden: int) -> None:
        super().__init__()
        self.inner_MFU = nn.Parameter(torch.randn(members, inputs, hidden) / inputs**0.5)
        self.step_MHU = nn.Parameter(torch.zeros(members, horizon, hidden))
        self.middle_MUU = nn.Parameter(torch.randn(members, hidden, hidden) * (2.0 / hidden) ** 0.5)
        self.bias_MU = nn.Parameter(torch.zeros(members, hidden))
        self.outer_MU = nn.Parameter(torch.zeros(members, hidden))

    def forward(self, x_XHF: torch.Tensor) -> torch.Tensor:
        """M x X x H."""
        inner = torch.einsum("xhf,mfu->mxhu", x_XHF, self.inner_MFU) + self.step_MHU[:, None]
        middle = torch.einsum("mxhu,muv->mxhv", torch.relu(inner), self.middle_MUU) + self.bias_MU[:, None, None]
        return torch.einsum("mxhv,mv->mxh", torch.relu(middle), self.outer_MU)

    def over(self, input_XHF: FloatArray) -> FloatArray:
        """The mean of the networks."""
        with torch.no_grad():
            found_XH: FloatArray = self(_tensor(input_XHF)).mean(dim=0).numpy().astype(np.float64)
        return found_XH


class Seen(NamedTuple):
    """Columns of all moments and steps ahead, scaled; what came, where it is known before the first row."""

    input_OHF: FloatArray
    change_OH: FloatArray  # of training moments, scaled; zero elsewhere
    scale_H: FloatArray
    moments: IntArray  # all of whose values are known at the first row

    def regression(self, moments: IntArray, ridge: float) -> FloatArray:
        """Weights of the columns, for each step ahead."""
        x_HOF, y_HO = self.input_OHF[moments].transpose(1, 0, 2), self.change_OH[moments].T
        products_HFF = x_HOF.transpose(0, 2, 1) @ x_HOF + ridge * np.eye(x_HOF.shape[2])
        products_HF = np.einsum("hof,ho->hf", x_HOF, y_HO)
        weight_HF: FloatArray = np.linalg.solve(products_HFF, products_HF[..., None])[..., 0]
        return weight_HF

    def parts(self, validation: float) -> tuple[IntArray, IntArray]:
        """Moments to learn from and, behind them, moments to decide on; no value is in both."""
        cut = int(len(self.moments) * (1.0 - validation))
        return self.moments[: max(cut - len(self.scale_H), 1)], self.moments[cut:]


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
    change_OH = np.zeros(input_OHF.shape[:2])
    ahead_H = np.arange(1, horizon + 1)
    change_OH[moments] = known.value_N[moments[:, None] + ahead_H] - known.value_N[moments][:, None]
    scale_H = np.maximum(change_OH[moments].std(axis=0), 1e-12)
    spread_HF, mean_HF = input_OHF[moments].std(axis=0), input_OHF[moments].mean(axis=0)
    scaled_OHF = (input_OHF - mean_HF) / np.where(spread_HF > 0, spread_HF, 1.0)
    # What never changes, such as the level, is one everywhere.
    return Seen(np.where(spread_HF > 0, scaled_OHF, 1.0), change_OH / scale_H, scale_H, moments)


def _applied(weight_HF: FloatArray, input_XHF: FloatArray) -> FloatArray:
    found_XH: FloatArray = np.einsum("xhf,hf->xh", input_XHF, weight_HF)
    return found_XH


def _tensor(array: FloatArray) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32))


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
