"""Policies of live clusters made ready for the mix as it moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.mixture import Mixture
from pilotage.kube.readying import Readying, _thread
from pilotage.model.cluster import Node
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


def test_a_rehearsal_of_a_policy_that_was_replaced_is_not_used() -> None:
    slow, readying = Slow(), Readying()
    slow.allowed.set()
    readying.ready("a", slow, pods(3))  # type: ignore[arg-type]
    slow.allowed.clear()
    readying.ready("a", slow, pods(9))  # type: ignore[arg-type]
    readying.ready("b", FGD, pods(9))
    learned = Slow(name="learned@1")
    readying.use("a", learned, FGD, pods(9))  # type: ignore[arg-type]
    slow.allowed.set()
    _thread().submit(lambda: None).result()  # the old rehearsal has ended
    assert readying.finished() == {}
    assert readying.ready("a", learned, pods(20)) is FGD  # type: ignore[arg-type]
    learned.allowed.set()
    assert summary(soon(readying)["a"]) == "for 20 pods"


def test_a_rehearsal_that_fails_leaves_the_policy_as_it_was() -> None:
    said: list[str] = []
    slow, readying = Slow(), Readying(said.append)
    slow.allowed.set()
    first = readying.ready("a", slow, pods(3))  # type: ignore[arg-type]
    object.__setattr__(slow, "allowed", None)
    assert readying.ready("a", slow, pods(9)) is first  # type: ignore[arg-type]
    _thread().submit(lambda: None).result()
    assert readying.finished() == {}
    assert "prepare fails: AttributeError" in said[0]


def test_to_look_at_the_mix_does_not_hide_that_it_moved() -> None:
    """A policy that takes over is prepared for the mix of now; those of other profiles are still to be."""
    cache = ClusterCache()
    cache.set_nodes([Node("n0", 8_000, 2**34)])
    mixture = Mixture(cache)
    assert mixture.moved()
    assert mixture.now().total == 1
    mixture._epoch = -1
    assert mixture.moved()
    mixture.take()
    mixture._epoch = -1
    assert not mixture.moved()


def test_of_many_changes_only_the_newest_is_rehearsed() -> None:
    """A cluster that grows node by node must not leave a queue of rehearsals behind."""
    slow, other, readying = Slow(), Slow(), Readying()
    slow.allowed.set()
    readying.ready("a", slow, pods(3))  # type: ignore[arg-type]
    under_way = _thread().submit(other.prepare, pods(1))
    asked = []
    for count in range(4, 20):
        readying.ready("a", slow, pods(count))  # type: ignore[arg-type]
        asked.append(readying._later["a"])
    assert [future.cancelled() for future in asked] == [True] * 15 + [False]
    other.allowed.set()
    under_way.result()
    assert summary(soon(readying)["a"]) == "for 19 pods"
