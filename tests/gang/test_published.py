"""The published experiment: check values and every total that was printed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pilotage.gang.controllers import EqualSplit, Exppo, StaticMpc
from pilotage.gang.problem import Problem
from pilotage.gang.published import (
    HORIZON,
    LENGTH,
    PublishedData,
    equal_as_printed,
    published_bound,
    published_sweeps,
    run_published,
)
from pilotage.gang.runs import carry_out
from pilotage.kernels.gang_control import plan_windows
from pilotage.kernels.gang_division import window_index
from pilotage.report.gang_tables import parity_table


@pytest.fixture(scope="module")
def data(gang_data: Path) -> PublishedData:
    return PublishedData.read(gang_data)


@pytest.fixture(scope="module")
def stored(data: PublishedData) -> Problem:
    return data.problem(data.sizes, 0, LENGTH)


pytestmark = pytest.mark.data

# Seconds without penalties and new divisions, as printed.
_STATIC = {
    "stored": (46195.28, 46970.59, 47880.18, 50574.75, 50863.58, 51787.43, 55054.51, 56611.80, 58099.98),
    "perfect": (41221.58, 42508.69, 43606.13, 44366.03, 45375.09, 47146.89, 47173.10, 47223.89, 49673.65),
}
_NEW = (399, 199, 133, 99, 79, 66, 57, 49, 44)
BARE = {
    ("exppo", "stored"): (65126.48, 0),
    **{
        (f"static-mpc({w})", forecast): (bare, new)
        for forecast, printed in _STATIC.items()
        for w, (bare, new) in enumerate(zip(printed, _NEW, strict=True), 1)
    },
    ("dynamic-mpc(10)", "stored"): (46497.93, 194),
    ("dynamic-mpc(10) lp 1", "perfect"): (42697.60, 132),
    ("dynamic-mpc(10)", "perfect"): (42426.23, 173),
}


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
    screen = Console(width=80, record=True, file=StringIO())
    screen.print(parity_table(found))
    assert "\N{HORIZONTAL ELLIPSIS}" not in screen.export_text()  # no digit is cut off
    runs = {
        (row.run.strategy, row.run.forecast): row.run for row in found if (row.run.penalty, row.run.length) == (15, 400)
    }
    assert {key: (round(runs[key].bare, 2), runs[key].redivisions) for key in BARE} == BARE
    sweeps = published_sweeps([row.run for row in found])
    assert sweeps["window"][3] == {
        f"{kind}(W)": runs[f"{kind}(3)", "stored"].total for kind in ("static-mpc", "dynamic-mpc", "dynamic-window")
    }
    assert list(sweeps["penalty"]) == [5, 15, 25, 45, 65, 95]
    assert len(sweeps["penalty"][95]) == HORIZON
    assert list(sweeps["length"]) == list(range(100, 900, 100))
    assert published_bound(data) == pytest.approx(41064.2, abs=0.05)


@pytest.mark.parametrize(("total", "printed"), [(49613.7, "49614"), (50720.89, "50720"), (50953.88, "50953.9")])
def test_printed_totals_are_rounded_or_cut_off(total: float, printed: str) -> None:
    assert equal_as_printed(total, printed)
    assert not equal_as_printed(total + 1.5, printed)
