"""How good a candidate's run is beside the baseline's on the same workload and seed: one number, higher is better.

Packing: the share of the room that is closed. Optimising the allocation alone learns to refuse pods early, so what is
lost before L0 and pods without GPU or with several that fail beyond the baseline's cost more than they bring.
Balance: the logarithm of how much smaller the variance of use is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p, tanh

from pilotage.policies.refusals import cost_near, cost_of
from pilotage.training.trials import Figures, Objective, Yardstick

COST_OF_FAILED = 4.0
COST_FOR_BREADTH = 1.0  # the same on workloads for breadth, where fitting pods of a kind may be few
ROOM_FOR_BREADTH = 1.5  # percent of capacity at least: shares of a small room would outweigh all others
WEIGHT_OF_BREADTH, COST_IN_BREADTH = 0.4, 0.3
BEST = 1.0  # a share beyond this says nothing more
BAD = -0.5  # below this only the logarithm counts
WANTED_SHARE, URGENCY = 0.75, 4.0  # below the first a given workload counts more: no list is to be left behind
TINY = 1e-7  # of a variance


def fitness(
    objective: Objective, figures: Figures, baseline: Figures, yardstick: Yardstick, *, given: bool = True
) -> float:
    """`given`: a workload that was asked for, not one for breadth."""
    if objective == "balance":
        return _evenness(figures, baseline)
    if not given:
        return WEIGHT_OF_BREADTH * _breadth(figures, baseline, yardstick)
    value = _damped(min(share_of_room(figures, baseline, yardstick), BEST) - cost_of(figures, baseline, COST_OF_FAILED))
    return value - _urgency(value) * (WANTED_SHARE - value)


@dataclass(frozen=True, slots=True)
class Around:
    """What many candidates that are near each other come to on the mean of their runs, and the baseline on the same."""

    own: Figures
    baseline: Figures


def fitness_near(
    objective: Objective,
    figures: Figures,
    baseline: Figures,
    yardstick: Yardstick,
    around: Around,
    *,
    given: bool = True,
) -> float:
    """For a single run of one of many candidates: without what bends, so that noise evens out over them."""
    if objective == "balance":
        return _evenness(figures, baseline)
    share = share_of_room(figures, baseline, yardstick)
    if not given:
        share *= yardstick.room / max(yardstick.room, ROOM_FOR_BREADTH)
        cost = COST_IN_BREADTH * cost_near(figures, baseline, around.own, around.baseline, COST_FOR_BREADTH)
        return WEIGHT_OF_BREADTH * (share - cost)
    value = share - cost_near(figures, baseline, around.own, around.baseline, COST_OF_FAILED)
    there = share_of_room(around.own, around.baseline, yardstick)
    return value * (1.0 + _urgency(there - cost_of(around.own, around.baseline, COST_OF_FAILED)))


def _urgency(value: float) -> float:
    return URGENCY if value < WANTED_SHARE else 0.0


def _breadth(figures: Figures, baseline: Figures, yardstick: Yardstick) -> float:
    """Steepest where candidate and baseline are level: one workload is not to outweigh all others."""
    share = (figures.allocation - baseline.allocation) / max(yardstick.room, ROOM_FOR_BREADTH)
    return tanh(share) - COST_IN_BREADTH * log1p(cost_of(figures, baseline, COST_FOR_BREADTH))


def _damped(value: float) -> float:
    return value if value >= BAD else BAD - log1p(BAD - value)


def share_of_room(figures: Figures, baseline: Figures, yardstick: Yardstick) -> float:
    return (figures.allocation - baseline.allocation) / yardstick.room


def _evenness(figures: Figures, baseline: Figures) -> float:
    """CPU counts most; memory as far as it does not cost CPU."""
    cpu = log((baseline.cpu_variance + TINY) / (figures.cpu_variance + TINY))
    memory = log((baseline.memory_variance + TINY) / (figures.memory_variance + TINY))
    return cpu + 0.1 * memory - (figures.failed - baseline.failed)
