"""One decision: the cluster as it is known, a pod, a policy. Synchronous, and no clock, network or thread in it.

On success the room is taken at once (assumed), so that the next decision sees it; the binding comes later.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.features import random_unit
from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import Taken, allowed, by_rules, feasible
from pilotage.kube.mixture import Mixture
from pilotage.kube.pod_rules import NO_RULES
from pilotage.kube.podview import PodView
from pilotage.kube.undecided import beside_plugins, undecided
from pilotage.kube.wishes import wishes
from pilotage.model.cluster import Node
from pilotage.model.errors import PolicyError
from pilotage.model.outcome import Choice, Failed, Outcome, Scheduled, Unschedulable
from pilotage.model.workload import BoolArray, FloatArray, PodShape
from pilotage.policies.api import Policy, WorkloadMix, prepared
from pilotage.policies.deciding import Row, View, best_totals, choose, totals
from pilotage.policies.kept_rows import KeptRows
from pilotage.scheduler.gang_columns import NO_GANG, GangAround, fill
from pilotage.scheduler.reasons import count_reasons

BEST_SHOWN = 4  # candidates that a decision names: the chosen one and the next three


@dataclass(frozen=True, slots=True)
class Advice:
    """What would be decided, and what it thinks of a node that somebody else chose."""

    outcome: Outcome
    rank: int = 0  # of that node among the candidates, 1 = the best; 0: it is none
    total: float | None = None


class Scored(NamedTuple):
    """A decision before it is made: who may have the pod, and how good each is."""

    view: View
    row: Row
    draw: float
    total_N: FloatArray  # -inf where it is no candidate
    taken: list[Taken]


@dataclass
class Cycle:
    """Decides about pods of several profiles on one cluster."""

    cache: ClusterCache
    policies: Mapping[str, Policy]  # by schedulerName
    seed: int = 0
    around: Callable[[PodView], GangAround] = lambda pod: NO_GANG
    decisions: int = 0

    def __post_init__(self) -> None:
        self._rows = KeptRows(self.cache)

    def attempt(self, pod: PodView) -> Outcome:
        """Tries to place the pod and assumes it where it goes."""
        cache = self.cache
        cache.refresh()
        why = undecided(pod, cache)
        if why:
            return Unschedulable(((why, 0),), len(cache.state.nodes))
        cache.ask_for(pod.shape)
        cache.refresh()
        policy = self.policies[pod.scheduler]
        try:
            with cache.claims.lifted_for(pod):
                return self._decided(pod, policy)
        except Exception as error:  # of a policy that anybody may have written: it costs this pod, not the others
            return Failed(_cause(error))

    def attempt_gang(self, pods: Sequence[PodView], wanted: int) -> dict[str, Outcome]:
        """Places at least `wanted` of the pods, or none."""
        promised = self.cache.claims.of(pods)
        outcomes = {pod.uid: self.attempt(pod) for pod in pods}
        placed = [uid for uid, outcome in outcomes.items() if isinstance(outcome, Scheduled)]
        if len(placed) >= wanted:
            return outcomes
        for uid in placed:
            self.cache.forget(uid)
        self.cache.claims.put_back(promised)
        refused = next((o for o in outcomes.values() if not isinstance(o, Scheduled)), None)
        if isinstance(refused, Failed):
            return dict.fromkeys(outcomes, refused)
        reasons = refused.reasons if isinstance(refused, Unschedulable) else ()
        note = f"only {len(placed)} of the {wanted} pods that the gang needs fit together"
        together = Unschedulable(((note, 0), *reasons), len(self.cache.state.nodes))
        return dict.fromkeys(outcomes, together)

    def candidates(self, pod: PodView) -> list[str]:
        """Nodes that the pod could go to now, whatever the policy thinks of them."""
        cache = self.cache
        cache.ask_for(pod.shape)
        cache.refresh()
        if undecided(pod, cache):
            return []
        return [cache.state.nodes[n].name for n in np.flatnonzero(feasible(pod, cache))]

    def use(self, name: str, policy: Policy) -> None:
        """Another policy from now on, such as the same one prepared for another mix."""
        self.policies = {**self.policies, name: policy}
        self._rows.clear()

    def advise(self, pod: PodView, actual: str) -> Advice:
        """What would be decided now, with nothing taken, and the rank of a node that somebody chose."""
        promised = self.cache.claims.of([pod])
        outcome = self.attempt(pod)
        self.cache.forget(pod.uid)
        self.cache.claims.put_back(promised)
        n = self.cache.state.index.get(actual, -1)
        if not isinstance(outcome, Scheduled) or n < 0:
            return Advice(outcome)
        with self.cache.claims.lifted_for(pod):
            total_N = self._scored(pod, self.policies[pod.scheduler]).total_N
        if not np.isfinite(total_N[n]):
            return Advice(outcome)
        rank_N = self.cache.rank_N
        ahead_N = (total_N > total_N[n]) | ((total_N == total_N[n]) & (rank_N < rank_N[n]))
        return Advice(outcome, 1 + int(np.count_nonzero(ahead_N)), float(total_N[n]))

    def _decided(self, pod: PodView, policy: Policy) -> Outcome:
        cache, shape = self.cache, pod.shape
        if not cache.state.nodes:
            return Unschedulable((), 0)
        view, row, draw, total_N, taken = self._scored(pod, policy)
        self.decisions += 1
        promised = cache.state.index.get(cache.claims.node_of(pod.uid), -1)
        if promised >= 0 and np.isfinite(total_N[promised]):  # others left it for this pod
            total_N = np.where(np.arange(len(total_N)) == promised, total_N, INFEASIBLE)
        n, devices = choose(policy, shape, view, row, draw, cache.rank_N, total_N)
        reasons = () if np.isfinite(total_N).all() else count_reasons(shape, view, cache, taken)
        if n < 0:
            note = beside_plugins(pod, cache)
            return Unschedulable(((note, 0), *reasons) if note else reasons, len(cache.state.nodes))
        choice = self._choice(policy, total_N, reasons)
        cache.assume(pod, n, devices, self.decisions)
        return Scheduled(cache.state.nodes[n].name, devices, choice)

    def _scored(self, pod: PodView, policy: Policy) -> Scored:
        cache = self.cache
        known = self._rows.row(pod.scheduler, pod.shape)
        draw = random_unit(self.seed, self.decisions)
        if policy.features.about_gangs:  # these columns change though no node does
            fill(cache.state.arrays, known.view.shapes, self.around(pod), cache.node_NF)
            known.row.seen = -1
        self._rows.refresh(policy, known, draw, pod.rules.latency)
        taken = by_rules(pod, cache)
        allowed_N = allowed(taken, len(cache.state.nodes)) if taken else None
        feasible_N = np.isfinite(known.row.raw_N)
        wish_N = self.wishes(pod, feasible_N if allowed_N is None else feasible_N & allowed_N)
        return Scored(known.view, known.row, draw, totals(policy, known.row, allowed_N, wish_N), taken)

    def _choice(self, policy: Policy, total_N: FloatArray, reasons: tuple[tuple[str, int], ...]) -> Choice:
        nodes = self.cache.state.nodes
        best = best_totals(total_N, self.cache.rank_N, BEST_SHOWN)
        named = tuple((nodes[n].name, float(total_N[n])) for n in best)
        return Choice(policy.name, named, int(np.isfinite(total_N).sum()), len(nodes), reasons)

    def wishes(self, pod: PodView, candidates_N: BoolArray) -> FloatArray | None:
        """Points that the pod's preferences give to nodes."""
        if pod.rules is NO_RULES and not self.cache.soft_taints:
            return None
        return wishes(pod, self.cache, candidates_N)


def _cause(error: Exception) -> str:
    """What went wrong; for what no policy should raise, also where."""
    if isinstance(error, PolicyError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


def try_decision(nodes: Sequence[Node], shape: PodShape, policy: Policy) -> Outcome:
    """One decision about one pod on an empty cluster: what is not on disk yet is compiled."""
    cache = ClusterCache()
    cache.set_nodes(nodes)
    mix = Mixture(cache, WorkloadMix((shape,), np.ones(1, np.int64))).take()
    cycle = Cycle(cache, {"": prepared(policy, mix)})
    pod = PodView("uid", "default", "pod", shape)
    impossible = replace(pod, uid="other", shape=replace(shape, cpu_milli=2**40))
    cycle.attempt(impossible)  # its reasons have a kernel of their own
    return cycle.attempt(pod)


def compile_decisions(policies: Iterable[Policy]) -> None:
    """What first decisions by these policies need is compiled now where it is not on disk yet."""
    for policy in policies:
        try_decision([Node("node", 8000, 2**33, gpu_count=1)], PodShape(1000, 2**30, 500, 1), policy)
