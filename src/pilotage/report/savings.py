"""The operator's question in numbers: how many GPUs a policy keeps busy more than the baseline, and what they cost.

GPUs saved = paired difference of the GPU allocation (percent of capacity) x GPUs of the cluster / 100. Clusters without
GPUs are counted in CPU cores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from pilotage.report.section import Section

if TYPE_CHECKING:
    from pilotage.sim.compare import Price

HOURS_PER_MONTH, HOURS_PER_YEAR = 730, 8760
TOO_LITTLE = 0.05  # of a GPU or core: shown as 0.0


class Verdict(Enum):
    """What the seeds allow to be said."""

    MORE = "more"
    FEWER = "fewer"
    UNCLEAR = "unclear"  # the interval includes zero
    SAME = "same"  # no more than TOO_LITTLE either way
    ONE_SEED = "one seed"  # no interval


@dataclass(frozen=True, slots=True)
class Saving:
    """How much capacity `policy` keeps busy more than `baseline`, with its 95 % interval."""

    policy: str
    baseline: str
    unit: str
    amount: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> Verdict:
        if self.low is None or self.high is None:
            return Verdict.ONE_SEED if abs(self.amount) >= TOO_LITTLE else Verdict.SAME
        if max(abs(self.low), abs(self.high)) < TOO_LITTLE:
            return Verdict.SAME
        if self.low > 0:
            return Verdict.MORE
        return Verdict.FEWER if self.high < 0 else Verdict.UNCLEAR

    def reversed(self) -> Saving:
        """The same seen from the baseline."""
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return Saving(self.baseline, self.policy, self.unit, -self.amount, low, high)

    def times(self, factor: float, unit: str) -> Saving:
        low = None if self.low is None else self.low * factor
        high = None if self.high is None else self.high * factor
        return replace(self, unit=unit, amount=self.amount * factor, low=low, high=high)


def savings_of(section: Section) -> list[Saving]:
    """One for every policy but the baseline, in the order of the comparison."""
    share = section.capacity / 100
    return [
        Saving(policy, row.baseline, section.unit, row.difference, row.difference_low, row.difference_high).times(
            share, section.unit
        )
        for policy in section.policies
        if (row := section.row(policy)) and policy != row.baseline
    ]


def best_of(section: Section) -> Saving | None:
    """The best policy against the baseline; where the baseline is the best, the baseline against the next best."""
    found = savings_of(section)
    if not found:
        return None
    best = max(found, key=lambda saving: saving.amount)
    return best if best.amount >= 0 else best.reversed()


def money(saving: Saving, price: Price, hours: float) -> Saving:
    """GPUs saved as money over so many hours."""
    return saving.times(price.per_gpu_hour * hours, price.unit)
