"""The published experiment: check values and every total that was printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotage.gang.controllers import EqualSplit, Exppo, StaticMpc
from pilotage.gang.problem import Problem
from pilotage.gang.published import HORIZON, LENGTH, PublishedData, equal_as_printed, run_published
from pilotage.gang.runs import carry_out
from pilotage.kernels.gang_control import plan_windows
from pilotage.kernels.gang_division import window_index


@pytest.fixture(scope="module")
def data(gang_data: Path) -> PublishedData:
    return PublishedData.read(gang_data)


@pytest.fixture(scope="module")
def stored(data: PublishedData) -> Problem:
    return data.problem(data.sizes, 0, LENGTH)


pytestmark = pytest.mark.data


def test_durations(data: PublishedData) -> None:
    found = [float(data.model.grid(j, np.array([30.0]), np.array([3500.0]))[0, 0]) for j in range(8)]
    wanted = [61.9513, 98.8063, 156.0127, 71.3212, 72.7795, 100.7163, 108.5049, 87.5801]
    assert found == pytest.approx(wanted, abs=5e-5)
    assert data.model.grid(1, np.array([20.0]), np.array([1250.0]))[0, 0] == pytest.approx(294.6971, abs=5e-5)


def test_sizes(data: PublishedData) -> None:
    actual = [31.925, 18.5689, 30.0725, 47.8953, 10.3043, 21.9221, 19.1897, 39.4892]
    forecast = [29.8321, 18.6581, 28.055, 49.4344, 10.0, 25.5356, 18.2216, 43.9054]
    assert data.sizes.actual_THJ[0, 0].tolist() == pytest.approx(actual, abs=5e-5)
    assert data.sizes.forecast_THJ[0, 0].tolist() == pytest.approx(forecast, abs=5e-5)


@pytest.mark.parametrize(
    ("width", "shares", "estimate"),
    [
        (1, [2300, 2100, 4800, 4200, 1200, 2900, 2400, 4100], 105.1842),
        (3, [2100, 2100, 4800, 4200, 1200, 2900, 2500, 4200], 317.2894),
        (10, [2000, 2200, 5000, 4200, 1200, 2800, 2500, 4100], 1099.7185),
    ],
)
def test_first_divisions(stored: Problem, width: int, shares: list[int], estimate: float) -> None:
    q = window_index(0, width, HORIZON)
    assert stored.shares(stored.greedy.unit_TQJ[0, q]).tolist() == shares
    assert stored.greedy.estimate_TQ[0, q] == pytest.approx(estimate, abs=5e-5)


def test_first_plan(stored: Problem) -> None:
    cost_H, width_H = np.zeros(HORIZON + 1), np.zeros(HORIZON, np.int64)
    plan_windows(stored.greedy.estimate_TQ[0], LENGTH, HORIZON, HORIZON, 1.02, 15.0, cost_H, width_H)
    assert cost_H[0] == pytest.approx(1169.03, abs=5e-3)
    assert width_H.tolist() == [3, 2, 2, 3, 2, 3, 2, 3, 2, 1]


def test_static_divisions(stored: Problem) -> None:
    exppo = Exppo().run(stored)
    assert stored.shares(exppo.unit_TJ[0]).tolist() == [1900, 3300, 4600, 2600, 2500, 3000, 3300, 2800]
    assert carry_out(EqualSplit(), stored, "stored").total == pytest.approx(72490.5, abs=0.05)
    first = StaticMpc(1).run(stored).seconds_T[:3]
    assert first.tolist() == pytest.approx([112.0526, 105.7975, 111.9275], abs=5e-5)


def test_every_printed_total(data: PublishedData) -> None:
    found = run_published(data)
    printed = [row for row in found if row.printed]
    assert len(printed) == 64
    assert [(row.run.strategy, row.run.total, row.printed) for row in printed if not row.equal] == []
    runs = {
        (row.run.strategy, row.run.forecast): row.run for row in found if (row.run.penalty, row.run.length) == (15, 400)
    }
    assert runs["static-mpc(2)", "stored"].redivisions == 199
    assert runs["dynamic-mpc(10)", "stored"].redivisions == 194
    assert runs["dynamic-mpc(10)", "stored"].bare == pytest.approx(46497.93, abs=5e-3)
    assert runs["dynamic-mpc(10) lp 1", "perfect"].redivisions == 132


@pytest.mark.parametrize(("total", "printed"), [(49613.7, "49614"), (50720.89, "50720"), (50953.88, "50953.9")])
def test_printed_totals_are_rounded_or_cut_off(total: float, printed: str) -> None:
    assert equal_as_printed(total, printed)
    assert not equal_as_printed(total + 1.5, printed)
