"""What counts as better."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest

from pilotage.policies.refusals import TOLERATED_LOST, cost_near, cost_of
from pilotage.training.fitness import (
    COST_OF_FAILED,
    URGENCY,
    WEIGHT_OF_BREADTH,
    Around,
    fitness,
    fitness_near,
    share_of_room,
)
from pilotage.training.trials import Figures, Yardstick

BASE = Figures(95.0, 1.0, 100, 50, 200, 0.004, 0.002)
ROOM = Yardstick(baseline=95.0, bound=97.0)


def packing(**changes: float) -> float:
    return fitness("packing", replace(BASE, **changes), BASE, ROOM)


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
    assert cost_of(own, BASE, COST_OF_FAILED) == 0.0
    assert cost_of(refused, BASE, COST_OF_FAILED) == pytest.approx(1.0)
    assert fitness("packing", refused, BASE, ROOM) < fitness("packing", BASE, BASE, ROOM)
    assert cost_of(replace(own, lost=BASE.lost + TOLERATED_LOST), BASE, COST_OF_FAILED) == pytest.approx(0.0)


def test_failed_pods_without_gpu_or_with_several_cost() -> None:
    assert packing(allocation=96.5, failed_cpu=102) < packing(allocation=96.5, failed_cpu=100)
    assert packing(allocation=96.5, failed_multi=52) < packing(allocation=96.5, failed_multi=50)
    assert packing(allocation=96.5, failed_cpu=80) == packing(allocation=96.5), "fewer bring nothing"


def test_near_others_what_is_refused_too_often_by_them_costs_in_proportion() -> None:
    """A plane through the baseline: what is chance on both sides of it evens out."""
    around = Around(replace(BASE, failed_multi=51, lost=BASE.lost + TOLERATED_LOST), BASE)
    more, fewer = (replace(BASE, failed_multi=failed) for failed in (53, 47))

    def cost(own: Figures, around: Around = around) -> float:
        return cost_near(own, BASE, around.own, around.baseline, COST_OF_FAILED)

    assert cost(fewer) == pytest.approx(-cost(more))
    assert cost(BASE) == 0.0 < cost(more) == pytest.approx(cost_of(more, BASE, COST_OF_FAILED))
    assert cost(replace(BASE, lost=BASE.lost + 0.5)) == pytest.approx(0.5)
    assert cost(replace(BASE, failed_cpu=110)) == 0.0, "not refused too often there"
    assert cost(replace(more, lost=BASE.lost + 0.5), Around(BASE, BASE)) == 0.0


def test_near_others_fitness_does_not_bend() -> None:
    """Runs differ by their seeds; as many above as below the usual must leave the mean where it is."""
    around = Around(replace(BASE, allocation=96.45), BASE)
    low, middle, high = (
        fitness_near("packing", replace(BASE, allocation=allocation), BASE, ROOM, around)
        for allocation in (93.45, 96.45, 99.45)
    )
    assert (low + high) / 2 == pytest.approx(middle)
    slope = high - middle
    ahead = Around(replace(BASE, allocation=96.6), BASE)
    assert slope == pytest.approx((1 + URGENCY) * 1.5), "left behind"
    high, middle = (
        fitness_near("packing", replace(BASE, allocation=allocation), BASE, ROOM, ahead)
        for allocation in (99.45, 96.45)
    )
    assert high - middle == pytest.approx(1.5)


def test_near_others_workloads_for_breadth_count_less() -> None:
    around, own = Around(BASE, BASE), replace(BASE, allocation=96.0)
    given, breadth = (fitness_near("packing", own, BASE, ROOM, around, given=given) for given in (True, False))
    assert 0.0 < breadth < given


def test_failed_pods_cost_less_on_a_workload_for_breadth() -> None:
    own = replace(BASE, allocation=96.8, failed_cpu=110)
    given, breadth = (fitness("packing", own, BASE, ROOM, given=given) for given in (True, False))
    assert given < breadth < fitness("packing", replace(own, failed_cpu=BASE.failed_cpu), BASE, ROOM, given=False)


def test_a_given_workload_gone_wrong_counts_by_its_logarithm() -> None:
    """Worse is still worse, but losing nine rooms more costs about two, urgency aside."""
    bad, worse = (packing(allocation=allocation) for allocation in (94.0, 76.0))
    assert (bad - worse) / (1 + URGENCY) == pytest.approx(np.log(10))


def test_no_workload_for_breadth_outweighs_the_others() -> None:
    def breadth(allocation: float, room: Yardstick = ROOM) -> float:
        return fitness("packing", replace(BASE, allocation=allocation), BASE, room, given=False)

    assert breadth(76.0) < breadth(94.0) < 0.0 < breadth(96.0) < breadth(97.0)
    assert -WEIGHT_OF_BREADTH <= breadth(76.0) < -0.99 * WEIGHT_OF_BREADTH
    assert breadth(95.1, Yardstick(95.0, 95.5)) == breadth(95.1, Yardstick(95.0, 96.5)), "shares of a small room"


def test_hardly_any_room_is_no_room() -> None:
    assert Yardstick(99.9, 99.91).room == pytest.approx(0.5)


def test_balance_is_the_logarithm_of_the_ratio_of_variances() -> None:
    half = replace(BASE, cpu_variance=0.002)
    assert fitness("balance", half, BASE, ROOM) == pytest.approx(log(2), abs=1e-3)
    assert fitness("balance", replace(half, failed=201), BASE, ROOM) < 0
