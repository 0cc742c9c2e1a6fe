"""Policies made ready for the mix of a live cluster, again each time it has moved.

Most take a moment. One that rehearses takes seconds: it does so in a thread, and until then decides as it was made
ready before, so that no decision waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from pilotage.kube.mixture import Mixture
from pilotage.model.errors import PilotageError
from pilotage.policies.api import Policy, WorkloadMix, prepared


class UsesPolicies(Protocol):
    """A `Cycle`, as far as it matters here."""

    def use(self, name: str, policy: Policy) -> None: ...


@dataclass(frozen=True, slots=True)
class _Used:
    policy: Policy  # as it was given
    ready: Policy
    models: tuple[str, ...]  # of the cluster it was made ready for: policies know them by number


class Readying:
    """What is in use, by name, and what is under way."""

    def __init__(self, on_problem: Callable[[str], None] = lambda text: None) -> None:
        self.on_problem = on_problem
        self._used: dict[str, _Used] = {}
        self._later: dict[str, Future[Policy]] = {}

    def use(self, name: str, policy: Policy, ready: Policy, mix: WorkloadMix) -> None:
        """Another policy from now on, that somebody made ready; what is under way for the old one is not wanted."""
        self._drop(name)
        self._used[name] = _Used(policy, ready, mix.models)

    def begin(self, name: str, policy: Policy, ready: Policy) -> None:
        """What to go on from, where not even the first decision may wait: made ready for some other mix."""
        self._used[name] = _Used(policy, ready, ())

    def _drop(self, name: str) -> None:
        """What is under way is not wanted any more; one that has not begun never will."""
        later = self._later.pop(name, None)
        if later is not None:
            later.cancel()

    def ready(self, name: str, policy: Policy, mix: WorkloadMix) -> Policy:
        """The policy to use from now on."""
        before = self._used.get(name)
        if before is None or before.policy is not policy or not getattr(policy, "takes_long", False):
            self._drop(name)
            now = prepared(policy, mix)
        else:
            now = before.ready if before.models == mix.models else prepared(before.ready, mix)
            self._drop(name)
            self._later[name] = _thread().submit(prepared, policy, mix)
        self._used[name] = _Used(policy, now, mix.models)
        return now

    def finished(self) -> dict[str, Policy]:
        """Policies whose thread has ended, to be used from now on. One that failed there stays as it was."""
        found: dict[str, Policy] = {}
        for name in [name for name, future in self._later.items() if future.done()]:
            try:
                ready = self._later.pop(name).result()
            except PilotageError as error:
                self.on_problem(f"{name}: is not made ready for the pods and nodes of now: {error}")
                continue
            found[name] = ready
            self._used[name] = _Used(self._used[name].policy, ready, self._used[name].models)
        return found


@cache
def _thread() -> ThreadPoolExecutor:
    """One for all: rehearsals one after the other leave a core to decisions."""
    return ThreadPoolExecutor(1, thread_name_prefix="readying")


def prepare(cycle: UsesPolicies, mixture: Mixture, readying: Readying, profiles: Mapping[str, Policy]) -> None:
    """Before a decision: nodes are taken in, and policies made ready again where the mix has moved."""
    mixture.cache.refresh()
    if mixture.cache.state.nodes and mixture.moved():
        mix = mixture.take()
        for name, policy in profiles.items():
            cycle.use(name, readying.ready(name, policy, mix))
    for name, ready in readying.finished().items():
        cycle.use(name, ready)
