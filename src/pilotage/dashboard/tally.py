"""Figures by schedulerName, from the decisions as they come: how many, how long, and what a shadow would have done."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from pilotage.dashboard.rows import Row
from pilotage.dashboard.source import Decision

WAITS_KEPT = 1000
MOST_PROFILES = 50  # names of schedulers come from pods, which anybody may make
OTHERS = "others"


@dataclass
class Side:
    """One scheduler or profile."""

    profile: str
    policy: str = ""
    placed: int = 0
    refused: int = 0
    asked: int = 0  # placements that the shadow was asked about
    agreed: int = 0
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=WAITS_KEPT))

    def row(self) -> Row:
        half, most = quantile(self.waits, 0.5), quantile(self.waits, 0.99)
        return [self.profile, self.policy, self.placed, self.refused, half, most, self.asked, self.agreed]


@dataclass
class Tally:
    """All of them."""

    sides: dict[str, Side] = field(default_factory=dict)
    placed: int = 0
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WAITS_KEPT))  # time, waited

    def take(self, decision: Decision) -> None:
        known = decision.profile in self.sides or len(self.sides) < MOST_PROFILES
        name = decision.profile if known else OTHERS
        side = self.sides.setdefault(name, Side(name))
        side.policy = decision.policy or side.policy
        if not decision.node:
            side.refused += 1
            return
        side.placed += 1
        self.placed += 1
        if decision.waited is not None:
            side.waits.append(decision.waited)
            self.recent.append((decision.time, decision.waited))
        if decision.advised is not None:
            side.asked += 1
            side.agreed += not decision.differs

    def waits_since(self, time: float) -> list[float]:
        return [waited for when, waited in self.recent if when >= time]

    def rows(self, policies: Mapping[str, str]) -> dict[str, Row]:
        """By schedulerName; also of profiles that have decided nothing yet."""
        for profile, policy in policies.items():
            self.sides.setdefault(profile, Side(profile)).policy = policy
        return {name: side.row() for name, side in self.sides.items()}


def quantile(values: deque[float] | list[float], q: float) -> float | None:
    ordered = sorted(values)
    return ordered[int(q * (len(ordered) - 1))] if ordered else None
