"""The newest decisions, in memory: who decided what about which pod, when, and why.

Fronts that decide (the scheduler, services) add to a journal; whoever shows decisions reads it. It is bounded; one
task or thread at a time may add to it, and any may read. A decision is plain data: `as_dict` gives what JSON can hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Literal

from pilotage.model.outcome import Choice, Failed, Outcome, Scheduled, Unschedulable, Wait
from pilotage.model.workload import PodShape
from pilotage.policies.explain import request_text

KEPT = 2000

Result = Literal["scheduled", "unschedulable", "waiting", "failed"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One attempt to place a pod."""

    number: int  # counts up from 1 in a journal, also over those that have been dropped from it
    time: float  # seconds since 1970
    instance: str  # the process that decided
    profile: str  # the pod's schedulerName
    policy: str  # name@version
    uid: str
    pod: str  # namespace/name
    request: str  # what it asks for, in words
    result: Result
    node: str = ""
    devices: tuple[int, ...] = ()
    score: float | None = None  # of the node it goes to
    best: tuple[tuple[str, float], ...] = ()  # candidates with the highest totals, the chosen one first
    candidates: int = 0  # nodes that the pod fitted on
    nodes: int = 0  # of the cluster
    reasons: tuple[tuple[str, int], ...] = ()  # what took nodes out, and how many
    why: str = ""  # one sentence
    gang: str = ""
    victims: tuple[str, ...] = ()  # namespace/name of pods that were told to go
    seconds: float = 0.0  # of processor time

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a front knows of an attempt beside what came of it."""

    time: float
    instance: str
    profile: str
    policy: str
    uid: str
    pod: str
    shape: PodShape
    gang: str = ""
    seconds: float = 0.0
    victims: tuple[str, ...] = ()


@dataclass
class Journal:
    """The newest first when it is asked."""

    kept: int = KEPT
    added: int = 0
    _decisions: deque[Decision] = field(init=False)

    def __post_init__(self) -> None:
        self._decisions = deque(maxlen=self.kept)

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(list(self._decisions)[::-1])  # a copy, made in one step: another thread may read

    def add(self, attempt: Attempt, outcome: Outcome) -> Decision:
        self.added += 1
        decision = _decision(self.added, attempt, outcome)
        self._decisions.append(decision)
        return decision

    def newest(self, limit: int = 100, after: int = 0) -> list[Decision]:
        """At most `limit`, newest first, numbered higher than `after`: for those who ask again and again."""
        return [decision for decision in islice(self, limit) if decision.number > after]

    def of_pod(self, pod: str) -> list[Decision]:
        """All that are kept about a pod, by its uid or its namespace/name; newest first."""
        return [decision for decision in self if pod in (decision.uid, decision.pod)]


def _decision(number: int, attempt: Attempt, outcome: Outcome) -> Decision:
    result, why, choice = _facts(outcome)
    scheduled = outcome if isinstance(outcome, Scheduled) else None
    mask = scheduled.devices if scheduled is not None else 0
    return Decision(
        number=number,
        time=attempt.time,
        instance=attempt.instance,
        profile=attempt.profile,
        policy=choice.policy or attempt.policy,
        uid=attempt.uid,
        pod=attempt.pod,
        request=request_text(attempt.shape),
        result=result,
        node=scheduled.node if scheduled is not None else "",
        devices=tuple(d for d in range(mask.bit_length()) if (mask >> d) & 1),
        score=choice.best[0][1] if choice.best else None,
        best=choice.best,
        candidates=choice.candidates,
        nodes=choice.nodes,
        reasons=choice.reasons,
        why=why,
        gang=attempt.gang,
        victims=attempt.victims,
        seconds=attempt.seconds,
    )


def _facts(outcome: Outcome) -> tuple[Result, str, Choice]:
    match outcome:
        case Scheduled(_, _, choice):
            return "scheduled", choice.verdict, choice
        case Unschedulable(reasons, nodes, _):
            return "unschedulable", outcome.message, Choice(nodes=nodes, reasons=reasons)
        case Wait(why):
            return "waiting", why, Choice()
        case Failed(why):
            return "failed", why, Choice()
