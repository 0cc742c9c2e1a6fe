"""Policies of live clusters made ready for the mix as it moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pilotage.kube.readying import Readying
from pilotage.model.workload import PodShape
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.policies.heuristics import FGD

MIX = WorkloadMix((PodShape(1000, 2**30, 500, 1),), np.array([3]), ("A",))


@dataclass(frozen=True)
class Slow:
    """Prepares once it is allowed to."""

    allowed: threading.Event = field(default_factory=threading.Event)
    name: str = "slow@1"
    takes_long: bool = True

    def prepare(self, mix: WorkloadMix) -> Policy:
        assert self.allowed.wait(30)
        return replace(FGD.prepare(mix), summary=f"for {mix.total} pods")


def pods(count: int) -> WorkloadMix:
    return replace(MIX, count_S=np.array([count]))


def soon(readying: Readying) -> dict[str, Policy]:
    """What is finished, once something is."""
    for _ in range(3000):
        if found := readying.finished():
            return found
        threading.Event().wait(0.01)
    raise AssertionError("nothing is finished")


def summary(policy: object) -> str:
    return str(getattr(policy, "summary", ""))


def test_the_first_time_is_waited_for() -> None:
    slow = Slow()
    slow.allowed.set()
    assert summary(Readying().ready("a", slow, pods(3))) == "for 3 pods"  # type: ignore[arg-type]


def test_a_policy_that_takes_long_decides_as_before_until_it_is_ready() -> None:
    slow, readying = Slow(), Readying()
    slow.allowed.set()
    first = readying.ready("a", slow, pods(3))  # type: ignore[arg-type]
    slow.allowed.clear()
    assert readying.ready("a", slow, pods(9)) is first  # type: ignore[arg-type]
    assert readying.finished() == {}
    slow.allowed.set()
    assert summary(soon(readying)["a"]) == "for 9 pods"
    assert readying.finished() == {}


def test_other_models_are_taken_in_at_once() -> None:
    """Policies know models by number: scores of the old numbers would be of other machines."""
    slow, readying = Slow(), Readying()
    slow.allowed.set()
    first = readying.ready("a", slow, pods(3))  # type: ignore[arg-type]
    slow.allowed.clear()
    now = readying.ready("a", slow, replace(pods(3), models=("A", "B")))  # type: ignore[arg-type]
    assert now is not first
    slow.allowed.set()
    soon(readying)


def test_other_policies_are_made_ready_at_once() -> None:
    readying = Readying()
    assert readying.ready("a", FGD, pods(3)) is not readying.ready("a", FGD, pods(9))
    assert readying.finished() == {}


def test_a_policy_in_the_place_of_another_is_waited_for() -> None:
    first, second, readying = Slow(), Slow(), Readying()
    first.allowed.set()
    second.allowed.set()
    ready: Callable[[Slow, int], Policy] = lambda slow, count: readying.ready("a", slow, pods(count))  # type: ignore[arg-type]  # noqa: E731
    ready(first, 3)
    assert summary(ready(second, 9)) == "for 9 pods"
