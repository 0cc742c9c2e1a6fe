"""Practice: a valuation is varied on a rehearsed workload, and what fills the cluster better is kept.

A valuation that was learned for many workloads is a good start for one of them, and a run of the rehearsal takes some
hundredths of a second: some hundred runs find much of what a long training on that workload would. Variants take some
parts from other valuations, or random steps; a step that helped is tried once more. A variant is dropped as soon as
chance does not explain any more that it is behind, and practice ends when nothing has helped for long. What was reached
on the way is tried at last on orders that nobody practised on, and the best there is taken. All draws are seeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from statistics import stdev

import numpy as np

from pilotage.model.workload import FloatArray
from pilotage.policies.priced import LAYOUT, Priced
from pilotage.policies.refusals import Refusals
from pilotage.policies.rehearsal import Rehearsal

DECISIONS = 12_000_000  # in all runs together
FEWEST_RUNS, MOST_RUNS = 300, 6000
PATIENCE = 0.3  # of the runs: it ends after so many in which nothing helped,
HELPFUL = 0.004  # by so much, percent of capacity
FEWEST_ORDERS, MOST_ORDERS = 6, 16
ENOUGH_PODS = 60_000  # in all orders together: with fewer, what helped by chance is taken for better
DOUBT = 1.3  # standard deviations by which a variant may lie behind
FIRST_SPREAD = 0.1  # standard deviation of differences between orders, percent of capacity
NEWEST = 0.2  # what the newest variant weighs in it
TELLING = 4  # orders that tell of it
MILESTONES = 6  # of what was reached on the way

# Parts that mean something only together.
TOGETHER: tuple[tuple[str, ...], ...] = (
    ("weights",),
    ("scarce_weights", "very_scarce_weights", "bulky_weights", "only_weights"),
    ("leftover", "shared_leftover", "multi_whole"),
    ("idle", "idle_share", "multi_idle", "multi_idle_share"),
    ("several", "multi_several", "crowded_several"),
    ("cpu", "served_by_cpu", "scarce_cpu", "scarce_served", "only_cpu"),
    ("memory", "served_by_memory", "scarce_memory", "tight_memory", "tight_served", "tight_weights"),
    tuple(name for name in LAYOUT if name.endswith(("small_pods", "gpu_pods", "cpu_chunks"))),
    ("model",),
)
EXCHANGED, TAKEN = 0.5, (0.5, 1.0, 1.3)  # share of the groups that a variant takes, how far it goes towards the other
STEPPED, STEPS = 0.5, (0.3, 1.0)  # share of the parameters that a variant steps, times their usual step
USUAL_STEP = 0.12  # standard deviation
UNLIKE_OTHERS = {"several": 0.4, "multi_several": 0.4, "crowded_several": 0.5}


def usual_steps() -> FloatArray:
    """Of each parameter."""
    return np.concatenate([np.full(size, UNLIKE_OTHERS.get(name, USUAL_STEP)) for name, size in LAYOUT.items()])


def usual_runs(rehearsal: Rehearsal) -> int:
    return min(max(DECISIONS // max(rehearsal.pods, 1), FEWEST_RUNS), MOST_RUNS)


def usual_orders(rehearsal: Rehearsal) -> int:
    return min(max(ENOUGH_PODS // max(rehearsal.pods, 1), FEWEST_ORDERS), MOST_ORDERS)


def practised(
    start: Priced, others: Sequence[Priced], rehearsal: Rehearsal, runs: int, orders: int
) -> tuple[Priced, float]:
    """The best variant of `start` that was found, and its value on twice the orders; `others` lend their parts. `runs`:
    at most, but for the last trial."""
    best = _Tried(start.parameters, rehearsal, start, orders)
    best.go_on(None, FIRST_SPREAD)
    variants, spread = _Variants([other.parameters for other in others]), FIRST_SPREAD
    reached, patience = [best], ceil(PATIENCE * runs)
    left = patience
    while runs > 0 and left > 0:
        tried = _Tried(variants.next_of(best.parameters), rehearsal, start, orders)
        tried.go_on(best, spread)
        runs, left = runs - len(tried.runs), left - len(tried.runs)
        if len(tried.runs) >= TELLING:
            spread += NEWEST * (tried.spread(best) - spread)
        gain = tried.gain(best)
        if gain > 0:
            variants.step = tried.parameters - best.parameters
            best = tried
            reached.append(best)
        if gain > HELPFUL:
            left = patience
    return _confirmed(reached[::-1][:: ceil(len(reached) / MILESTONES)], start, rehearsal, orders)


def _confirmed(reached: Sequence[_Tried], policy: Priced, rehearsal: Rehearsal, orders: int) -> tuple[Priced, float]:
    """The one that does best on the orders after those of the practice, the first among equals; its value on all."""
    policies = [replace(policy, parameters=one.parameters) for one in reached]
    runs = [[rehearsal.try_out(one, order) for order in range(orders, 2 * orders)] for one in policies]
    best = int(np.argmax([rehearsal.value(own, first=orders) for own in runs]))
    return policies[best], rehearsal.value([*reached[best].runs, *runs[best]])


@dataclass
class _Tried:
    parameters: FloatArray
    rehearsal: Rehearsal
    policy: Priced
    orders: int
    runs: list[Refusals] = field(default_factory=list)  # order by order

    def value(self, orders: int) -> float:
        return self.rehearsal.value(self.runs[:orders])

    def go_on(self, best: _Tried | None, spread: float) -> None:
        """Through the orders, as long as it may still turn out the better one."""
        policy = replace(self.policy, parameters=self.parameters)
        for order in range(self.orders):
            self.runs.append(self.rehearsal.try_out(policy, order))
            tried = order + 1
            chance = DOUBT * spread * sqrt(1 / tried - 1 / self.orders)
            if best is not None and self.value(tried) < best.value(tried) - chance:
                return

    def spread(self, best: _Tried) -> float:
        """Of the differences to the best, order by order: standard deviation."""
        value = self.rehearsal.value
        return stdev(value([own]) - value([other]) for own, other in zip(self.runs, best.runs, strict=False))

    def gain(self, best: _Tried) -> float:
        """By how much it is the better one; below 0 where it was dropped."""
        return self.value(self.orders) - best.value(self.orders) if len(self.runs) == self.orders else -1.0


class _Variants:
    def __init__(self, others: Sequence[FloatArray]) -> None:
        self.step: FloatArray | None = None  # one that has just helped
        self._others, self._scale = others, usual_steps()
        self._random = np.random.Generator(np.random.PCG64(0))
        self._groups = [*_groups()]

    def next_of(self, parameters: FloatArray) -> FloatArray:
        random = self._random
        if self.step is not None:
            step, self.step = self.step, None
            return parameters + step
        if random.random() < 0.5:
            varied = parameters.copy()
            for group in self._groups:
                other = self._others[int(random.integers(len(self._others)))]
                if random.random() < EXCHANGED:
                    varied[group] += (other[group] - parameters[group]) * random.choice(TAKEN)
            return varied
        stepped = random.random(len(parameters)) < STEPPED
        random_step: FloatArray = random.normal(size=len(parameters)) * self._scale * stepped * random.choice(STEPS)
        return parameters + random_step


def _groups() -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Places of the parameters that belong together."""
    ends = dict(zip(LAYOUT, np.cumsum([*LAYOUT.values()]).tolist(), strict=True))
    for names in TOGETHER:
        yield np.concatenate([np.arange(ends[name] - LAYOUT[name], ends[name]) for name in names])
