"""What counts as better."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

from pilotage.training.fitness import TOLERATED_LOST, URGENCY, cost, fitness, share_of_room
from pilotage.training.trials import Figures, Yardstick

BASE = Figures(95.0, 1.0, 100, 50, 200, 0.004, 0.002)
ROOM = Yardstick(baseline=95.0, bound=97.0)


def packing(**changes: float) -> float:
    return fitness("packing", replace(BASE, **changes), BASE, ROOM)  # type: ignore[arg-type]


def test_the_share_of_the_room_counts() -> None:
    assert share_of_room(replace(BASE, allocation=96.5), BASE, ROOM) == pytest.approx(0.75)
    assert packing(allocation=96.5) == pytest.approx(0.75)
    assert packing(allocation=96.8) == pytest.approx(0.9)


def test_a_given_workload_that_is_left_behind_counts_more() -> None:
    assert packing(allocation=95.0) == pytest.approx(-URGENCY * 0.75)
    assert fitness("packing", BASE, BASE, ROOM, given=False) == 0.0


def test_refusing_early_costs_a_share_for_every_percent_of_capacity() -> None:
    own = replace(BASE, allocation=96.5)
    refused = replace(own, lost=BASE.lost + TOLERATED_LOST + 1.0)
    assert cost(own, BASE) == 0.0
    assert cost(refused, BASE) == pytest.approx(1.0)
    assert fitness("packing", refused, BASE, ROOM) < fitness("packing", BASE, BASE, ROOM)
    assert cost(replace(own, lost=BASE.lost + TOLERATED_LOST), BASE) == pytest.approx(0.0)


def test_failed_pods_without_gpu_or_with_several_cost() -> None:
    assert packing(allocation=96.5, failed_cpu=102) < packing(allocation=96.5, failed_cpu=100)
    assert packing(allocation=96.5, failed_multi=52) < packing(allocation=96.5, failed_multi=50)
    assert packing(allocation=96.5, failed_cpu=80) == packing(allocation=96.5), "fewer bring nothing"


def test_failed_pods_cost_less_on_a_workload_for_breadth() -> None:
    own = replace(BASE, allocation=96.8, failed_cpu=110)
    given, breadth = (fitness("packing", own, BASE, ROOM, given=given) for given in (True, False))
    assert given < breadth < fitness("packing", replace(own, failed_cpu=BASE.failed_cpu), BASE, ROOM, given=False)


def test_a_workload_gone_wrong_counts_by_its_logarithm() -> None:
    """Worse is still worse, but losing nine rooms more costs about two."""
    bad, worse = (fitness("packing", replace(BASE, allocation=a), BASE, ROOM, given=False) for a in (94.0, 76.0))
    assert bad == pytest.approx(-0.5)
    assert worse == pytest.approx(-0.5 - np.log(10))


def test_hardly_any_room_is_no_room() -> None:
    assert Yardstick(99.9, 99.91).room == pytest.approx(0.5)


def test_balance_is_the_logarithm_of_the_ratio_of_variances() -> None:
    half = replace(BASE, cpu_variance=0.002)
    assert fitness("balance", half, BASE, ROOM) == pytest.approx(log(2), abs=1e-3)
    assert fitness("balance", replace(half, failed=201), BASE, ROOM) < 0
