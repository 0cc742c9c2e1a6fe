"""How good a candidate's run is beside the baseline's on the same workload and seed: one number, higher is better.

Packing: the share of the room that is closed. Optimising the allocation alone learns to refuse pods early, so what is
lost before L0 and pods without GPU or with several that fail beyond the baseline's cost more than they bring.
Balance: the logarithm of how much smaller the variance of use is.
"""

from __future__ import annotations

from math import log, log1p

from pilotage.training.trials import Figures, Objective, Yardstick

TOLERATED_LOST = 0.1  # percent of capacity beyond the baseline's
TOLERATED_FAILED = 0.012  # of the baseline's failed pods
FEWEST_FAILED = {"cpu": 40, "multi": 20}  # a baseline that fails fewer counts as this
COST_OF_FAILED = 4.0
COST_FOR_BREADTH = 1.0  # the same on workloads for breadth, where fitting pods of a kind may be few
BEST = 1.0  # a share beyond this says nothing more
BAD = -0.5  # below this only the logarithm counts: one workload gone wrong is not to outweigh all others
WANTED_SHARE, URGENCY = 0.75, 2.0  # below the first a given workload counts more: no list is to be left behind
TINY = 1e-7  # of a variance


def fitness(
    objective: Objective, figures: Figures, baseline: Figures, yardstick: Yardstick, *, given: bool = True
) -> float:
    """`given`: a workload that was asked for, not one for breadth."""
    if objective == "balance":
        return _evenness(figures, baseline)
    share = share_of_room(figures, baseline, yardstick)
    price = COST_OF_FAILED if given else COST_FOR_BREADTH
    value = _damped(min(share, BEST) - cost(figures, baseline, price))
    return value - URGENCY * max(0.0, WANTED_SHARE - value) if given else value


def _damped(value: float) -> float:
    return value if value >= BAD else BAD - log1p(BAD - value)


def share_of_room(figures: Figures, baseline: Figures, yardstick: Yardstick) -> float:
    return (figures.allocation - baseline.allocation) / yardstick.room


def cost(figures: Figures, baseline: Figures, of_failed: float = COST_OF_FAILED) -> float:
    """Of pods that the baseline would have placed."""
    cpu = (figures.failed_cpu - baseline.failed_cpu) / max(baseline.failed_cpu, FEWEST_FAILED["cpu"])
    multi = (figures.failed_multi - baseline.failed_multi) / max(baseline.failed_multi, FEWEST_FAILED["multi"])
    failed = max(0.0, cpu - TOLERATED_FAILED) + max(0.0, multi - TOLERATED_FAILED)
    return max(0.0, figures.lost - baseline.lost - TOLERATED_LOST) + of_failed * failed


def _evenness(figures: Figures, baseline: Figures) -> float:
    """CPU counts most; memory as far as it does not cost CPU."""
    cpu = log((baseline.cpu_variance + TINY) / (figures.cpu_variance + TINY))
    memory = log((baseline.memory_variance + TINY) / (figures.memory_variance + TINY))
    return cpu + 0.1 * memory - (figures.failed - baseline.failed)
