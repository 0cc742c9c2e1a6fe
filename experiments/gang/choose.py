"""Chooses what the combined forecaster is made of: its members, how fast errors are forgotten, how much they count.

Half-life and power are those with the least error on the training part of the eight series; errors on rows 400-599 of
the published job stand beside it. Rows 0-399 and 600-979, on which the experiment is tried, are not judged. Whether
members should be left out is tried series by series: chosen on seven, judged on the eighth. Prints JSON; `choice.json`
beside this file is its output.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pilotage.gang.combining import PLAIN, past_errors
from pilotage.gang.forecast_trial import actual_values
from pilotage.gang.lag_regression import VARIANTS, roll_variants
from pilotage.gang.published import MOST_VALUES, ROWS, SERIES, STEPS
from pilotage.gang.series import read_series
from pilotage.model.workload import BoolArray, FloatArray

HALF_LIVES: Final = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 80.0, 160.0)
POWERS: Final = (2.0, 3.0, 5.0, 8.0, 12.0, 16.0)
WARM: Final = 150  # rows at the beginning that are not judged: weights are not settled
LONGEST: Final = 2000  # training rows that are forecast, at most, and at most half of them
CHOICE_ROWS: Final = (400, 600)
FEWEST: Final = 4  # forecasters
NAMES: Final = tuple([variant.name for variant in VARIANTS] + [plain.name for plain in PLAIN])


class Judged(NamedTuple):
    """One series: forecasts of all candidates up to row 599, and what came."""

    rolled_VTH: FloatArray
    actual_TH: FloatArray
    judged_TH: BoolArray
    value_N: FloatArray
    early: int
    error_VTH: FloatArray  # sums of squares so far; of the half-life at hand

    def on(self, *, training: bool) -> Judged:
        """Judged on one of the two parts alone."""
        before_T = np.arange(len(self.judged_TH)) < len(self.judged_TH) - CHOICE_ROWS[1]
        return self._replace(judged_TH=self.judged_TH & (before_T == training)[:, None])

    def at(self, half_life: float) -> Judged:
        return self._replace(error_VTH=past_errors(self.rolled_VTH, self.value_N, self.early, half_life))


def read(path: Path) -> Judged:
    series = read_series(path, MOST_VALUES)
    first = len(series) - (ROWS + STEPS - 1)
    early = max(first // 2, first - LONGEST)
    rows = first - early + CHOICE_ROWS[1]
    known = series.until(first + CHOICE_ROWS[1] + STEPS - 1)
    rolled_VTH = np.concatenate(
        [
            roll_variants(VARIANTS, known, early, rows, STEPS),
            np.stack([plain.roll(known, early, rows, STEPS) for plain in PLAIN]),
        ]
    )
    target_TH = np.arange(rows)[:, None] + np.arange(STEPS) + early - first  # as a row of the published job
    row_T = np.arange(rows)[:, None] + early - first
    training_TH = (np.arange(rows)[:, None] >= WARM) & (target_TH < 0)
    chosen_TH = (row_T >= CHOICE_ROWS[0]) & (target_TH < CHOICE_ROWS[1])
    actual_TH = actual_values(known, early, rows, STEPS)
    return Judged(rolled_VTH, actual_TH, training_TH | chosen_TH, known.value_N, early, np.zeros(0))


def weights(one: Judged, power: float) -> FloatArray:
    least_TH = np.maximum(one.error_VTH.min(axis=0), 1e-300)
    weight_VTH: FloatArray = np.maximum(one.error_VTH / least_TH, 1.0) ** (-power / 2)
    return weight_VTH


def loss(one: Judged, forecast_TH: FloatArray) -> float:
    """Mean over steps ahead of the logarithm of the root mean square error."""
    squared_TH = np.where(one.judged_TH, forecast_TH - one.actual_TH, 0.0) ** 2
    return float(0.5 * np.log(squared_TH.sum(axis=0) / one.judged_TH.sum(axis=0)).mean())


def losses_without(judged: list[Judged], power: float, pool: list[int]) -> tuple[float, dict[int, float]]:
    """Mean loss of a pool, and of the pool without each of its members."""
    whole, without = [], {v: [] for v in pool}  # type: tuple[list[float], dict[int, list[float]]]
    for one in judged:
        weight_VTH = weights(one, power)[pool]
        product_VTH = weight_VTH * one.rolled_VTH[pool]
        weight_TH, product_TH = weight_VTH.sum(axis=0), product_VTH.sum(axis=0)
        whole.append(loss(one, product_TH / weight_TH))
        for k, v in enumerate(pool):
            left_TH = np.maximum(weight_TH - weight_VTH[k], 1e-300)
            without[v].append(loss(one, (product_TH - product_VTH[k]) / left_TH))
    return float(np.mean(whole)), {v: float(np.mean(own)) for v, own in without.items()}


def settings_table(judged: list[Judged], pool: list[int]) -> list[dict[str, float]]:
    found = []
    for half_life in HALF_LIVES:
        there = [one.at(half_life) for one in judged]
        for power in POWERS:
            loss_there = round(losses_without(there, power, pool)[0], 5)
            found.append({"half_life": half_life, "power": power, "loss": loss_there})
    return found


def pool_of(judged: list[Judged], power: float) -> list[int]:
    """What is left when the one without which the others are best is left out again and again; the best of the way."""
    pool = list(range(len(NAMES)))
    least, best = float("inf"), pool
    while len(pool) > FEWEST:
        whole, without = losses_without(judged, power, pool)
        if whole < least:
            least, best = whole, list(pool)
        pool.remove(min(pool, key=lambda v: without[v]))
    return best


def carried_over(judged: list[Judged], power: float) -> list[dict[str, object]]:
    """Whether a pool that is chosen on seven series is better on the eighth than the whole pool."""
    found: list[dict[str, object]] = []
    for number, one in enumerate(judged):
        pool = pool_of(judged[:number] + judged[number + 1 :], power)
        whole, chosen = (losses_without([one], power, own)[0] for own in (list(range(len(NAMES))), pool))
        change = round(100 * (chosen - whole), 2)
        found.append({"series": SERIES[number], "members": len(pool), "change_percent": change})
    return found


def main(directory: Path) -> None:
    judged = [read(directory / "series" / f"{name}.csv") for name in SERIES]
    whole = list(range(len(NAMES)))
    tables = {}
    for name, training in (("training", True), ("rows 400-599", False)):
        tables[name] = settings_table([one.on(training=training) for one in judged], whole)
    best = min(tables["training"], key=lambda one: one["loss"])
    half_life, power = best["half_life"], best["power"]
    without = carried_over([one.at(half_life) for one in judged], power)
    mean = round(float(np.mean([float(str(one["change_percent"])) for one in without])), 2)
    found = {"half_life": half_life, "power": power, **tables, "left_out": without, "left_out_mean_percent": mean}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(os.environ["PILOTAGE_DATA"]) / "bsp")
