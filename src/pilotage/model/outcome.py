"""What comes of trying to place a pod: values, not exceptions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Choice:
    """What a node was chosen from."""

    policy: str = ""  # name@version
    best: tuple[tuple[str, float], ...] = ()  # the highest totals and their nodes, the chosen one first
    candidates: int = 0  # nodes that the pod fitted on
    nodes: int = 0  # of the cluster
    reasons: tuple[tuple[str, int], ...] = ()  # what took the other nodes out, and how many

    @property
    def verdict(self) -> str:
        """Why this one, in one sentence."""
        if not self.best:
            return ""
        name, total = self.best[0]
        if self.candidates == 1:
            return f"{name} is the only one of {self.nodes} nodes that the pod fits on"
        among = f"{name} has the highest total {total:g} of {self.candidates} candidates"
        other, next_total = self.best[1]
        if next_total == total:
            return f"{among}, as has {other}; {name} comes first in the order of nodes"
        return f"{among}, {total - next_total:g} ahead of {other}"


NO_CHOICE = Choice()


@dataclass(frozen=True, slots=True)
class Scheduled:
    """It goes there."""

    node: str
    devices: int = 0  # bit mask
    choice: Choice = field(default=NO_CHOICE, compare=False)  # why; not what is decided


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """It fits nowhere now: why, and on how many nodes."""

    reasons: tuple[tuple[str, int], ...]  # by text
    nodes: int
    note: str = ""  # what is being done about it

    @property
    def message(self) -> str:
        """As kube-scheduler writes it: autoscalers and people read it."""
        counted = ", ".join(f"{count} {reason}" if count else reason for reason, count in sorted(self.reasons))
        text = f"0/{self.nodes} nodes are available: {counted}." if counted else f"0/{self.nodes} nodes are available."
        return f"{text} {self.note}." if self.note else text


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to decide yet: it is gated, or its gang is not complete."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt itself failed; it says nothing about the pod."""

    why: str


Outcome = Scheduled | Unschedulable | Wait | Failed
