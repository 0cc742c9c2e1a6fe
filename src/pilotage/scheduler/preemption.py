"""Who would have to go so that pods of higher priority fit: planned on the cluster as it is known, nothing is sent.

As kube-scheduler does it: on a node, all pods of lower priority are taken away; if the pod fits then, as many of them
as possible are put back, the most important first. Among the nodes the one wins whose victims matter least. Two things
are stricter: a disruption budget is never broken, and a gang is not left below what it needs: then all of it goes, or
nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.feasibility import NODE_DOWN, NOT_ELIGIBLE, ShapeArrays, feasible_some, obstacles
from pilotage.kube.budgets import Budgets
from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import by_rules, feasible
from pilotage.kube.pod_rules import NO_RULES
from pilotage.kube.podview import PodView
from pilotage.kube.undecided import undecided
from pilotage.model.cluster import Placement
from pilotage.policies.choose import devices_for
from pilotage.policies.encode import encode_shapes
from pilotage.scheduler.gangs import Gangs

NODES_TRIED = 100  # nodes on which the pod would fit; more are not compared
NODES_LOOKED_AT = 1000  # nodes in all

Cost = tuple[int, int, int, int, float, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the pods would go, and who has to go for it."""

    places: dict[str, tuple[str, int]]  # uid -> node and devices; only those that need a victim
    victims: tuple[PodView, ...]  # to be told to go; those that are going anyway are not among them
    gangs: tuple[str, ...] = ()  # that go whole


@dataclass
class _Away:
    """Pods that are off their nodes while a plan is made."""

    lifted: list[tuple[PodView, Placement]] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)


@dataclass
class Preemption:
    """Plans on a cache, which is as before when a plan is made."""

    cache: ClusterCache
    budgets: Budgets
    gangs: Gangs
    told: set[str] = field(default_factory=set)  # uids of pods that were told to go; the cluster may not show it yet

    def possible(self, pod: PodView) -> bool:
        """Whether it may tell others to go, and there is anybody of lower priority at all."""
        lowest = min(self.cache.neighbours.priorities, default=pod.shape.priority)
        return pod.preempts and lowest < pod.shape.priority and not undecided(pod, self.cache)

    def under_way(self, pod: PodView) -> bool:
        """Whether somebody is leaving the node that the pod was promised: then nobody else is told to."""
        there = self.cache.neighbours.on_node.get(self.cache.claims.node_of(pod.uid), ())
        pods = (self.cache.pods[uid] for uid in there if uid in self.cache.pods)
        return any(self.leaves(one) and one.shape.priority < pod.shape.priority for one in pods)

    def leaves(self, pod: PodView) -> bool:
        """Whether it is on its way out, as far as we know."""
        self.told.intersection_update(self.cache.pods)
        return pod.deleting or pod.uid in self.told

    def plan(self, pods: Sequence[PodView], wanted: int) -> Plan | None:
        """Room for `wanted` of the pods, the first that get some; None when even this way there is none."""
        places: dict[str, tuple[str, int]] = {}
        victims: dict[str, PodView] = {}
        found = 0
        with self._undone(pods) as away:
            for pod in pods:
                with self.cache.claims.lifted_for(pod):
                    chosen = self._place(pod, victims, away)
                if chosen is None:
                    continue
                found += 1
                n, devices, needed = chosen
                if needed:
                    places[pod.uid] = self.cache.state.nodes[n].name, devices
                if found == wanted:
                    break
        if found < wanted or not places:
            return None
        going = tuple(one for one in victims.values() if not self.leaves(one))
        return Plan(places, going, tuple(sorted({one.group for one in going if self._too_small(one, victims)})))

    @contextmanager
    def _undone(self, pods: Sequence[PodView]) -> Iterator[_Away]:
        away, promised = _Away(), self.cache.claims.of(pods)
        try:
            yield away
        finally:
            for uid in reversed(away.placed):
                self.cache.forget(uid)
            for pod, placement in reversed(away.lifted):
                self.cache.put_back(pod, placement)
            self.cache.claims.put_back(promised)

    def _place(self, pod: PodView, victims: dict[str, PodView], away: _Away) -> tuple[int, int, bool] | None:
        """Node, devices and whether somebody had to go; the pod is there for the rest of the plan."""
        shapes = encode_shapes(self.cache.state, [pod.shape])
        free = np.flatnonzero(feasible(pod, self.cache))
        if len(free):
            n, more = int(free[np.argmin(self.cache.rank_N[free])]), None
        else:
            best = min(self._options(pod, shapes, victims), key=lambda option: option[0], default=None)
            if best is None:
                return None
            n, more = best[1], best[2]
            for one in more:
                away.lifted.append((one, self.cache.lift(one.uid)))
                victims[one.uid] = one
        devices = self._devices(pod, n)
        self.cache.assume(pod, n, devices, 0)
        away.placed.append(pod.uid)
        return n, devices, more is not None

    def _options(
        self, pod: PodView, shapes: ShapeArrays, victims: dict[str, PodView]
    ) -> Iterator[tuple[Cost, int, list[PodView]]]:
        """Nodes where it would fit, with who has to go and what that costs."""
        cache, names = self.cache, self.cache.state.nodes
        obstacle_N = np.zeros(len(names), np.int64)
        obstacles(cache.state.arrays, shapes, 0, obstacle_N)
        open_N = (obstacle_N != NODE_DOWN) & (obstacle_N != NOT_ELIGIBLE)
        if cache.pool is not None:
            open_N &= cache.facts.selected(cache.pool)
        looked_at = found = 0
        for n in sorted(np.flatnonzero(open_N).tolist(), key=lambda n: cache.rank_N[n]):
            lower = self._lower(pod, names[n].name)
            if not lower or not self._enough(pod, n, lower):
                continue
            looked_at += 1
            needed = self._needed(pod, shapes, n, lower)
            going = self._with_gangs(pod, needed, victims) if needed is not None else None
            if going is not None and not self._breaks_budgets(going, victims):
                found += 1
                yield self._cost(going, victims, n), n, going
            if looked_at >= NODES_LOOKED_AT or found >= NODES_TRIED:
                return

    def _enough(self, pod: PodView, n: int, lower: list[PodView]) -> bool:
        """Whether there would be enough of everything if all of them went: spares trying it."""
        state = self.cache.state
        request_R = state.demand(pod.shape).request_R
        free_R = state.arrays.free_NR[n] + sum(state.demand(one.shape).request_R for one in lower)
        return bool(((request_R <= free_R) | (request_R == 0)).all())

    def _lower(self, pod: PodView, node: str) -> list[PodView]:
        """Pods that could go, the most important first. One whose binding is still under way cannot."""
        cache = self.cache
        found = [cache.pods[uid] for uid in cache.neighbours.on_node.get(node, ()) if uid in cache.pods]
        lower = [
            one
            for one in found
            if one.shape.priority < pod.shape.priority and one.node and not cache.state.assumed(one.uid)
        ]
        return sorted(lower, key=lambda one: (-one.shape.priority, one.started or one.created, one.uid))

    def _needed(self, pod: PodView, shapes: ShapeArrays, n: int, lower: list[PodView]) -> list[PodView] | None:
        """Those of `lower` that cannot stay if the pod comes; None when it does not fit even without them all."""
        away = [(one, self.cache.lift(one.uid)) for one in lower]
        going: list[PodView] = []
        try:
            if not self._fits(pod, shapes, n):
                return None
            # Those with a tight budget are put back first, then the most important; who is going anyway comes last.
            tight = {one.uid for one in lower if self.budgets.broken_by([one])}
            order = sorted(away, key=lambda entry: (entry[0].deleting, entry[0].uid not in tight))
            away = []
            for one, placement in order:
                self.cache.put_back(one, placement)
                if not self._fits(pod, shapes, n):
                    away.append((one, self.cache.lift(one.uid)))
                    going.append(one)
            return going
        finally:
            for one, placement in away:
                self.cache.put_back(one, placement)

    def _fits(self, pod: PodView, shapes: ShapeArrays, n: int) -> bool:
        fits = np.zeros(1, np.bool_)
        feasible_some(self.cache.state.arrays, shapes, 0, np.array([n], np.int64), fits)
        if not fits[0]:
            return False
        if pod.rules is NO_RULES and not self.cache.neighbours.repelling:
            return True
        return not any(out_N[n] for _, out_N in by_rules(pod, self.cache))

    def _devices(self, pod: PodView, n: int) -> int:
        arrays = self.cache.state.arrays
        left_D, count = arrays.device_left_ND[n], int(arrays.device_count_N[n])
        return devices_for(pod.shape, left_D, count, -1, "best", 0.0, "preemption")

    # Gangs and budgets

    def _too_small(self, one: PodView, going: Mapping[str, PodView]) -> bool:
        """Whether its gang has fewer pods than it needs when all these have gone."""
        wanted = self.gangs.wanted(one)
        return wanted > 1 and sum(m.uid not in going for m in self.gangs.bound(one)) < wanted

    def _with_gangs(self, pod: PodView, needed: list[PodView], victims: dict[str, PodView]) -> list[PodView] | None:
        """Also the rest of each gang that would be too small; None where a part of it may not be told to go."""
        going = {one.uid: one for one in needed}
        for one in needed:
            if not self._too_small(one, {**victims, **going}):
                continue
            for member in self.gangs.bound(one):
                if member.uid in going or member.uid in victims:
                    continue
                if member.shape.priority >= pod.shape.priority or self.cache.state.assumed(member.uid):
                    return None
                going[member.uid] = member
        return list(going.values())

    def _breaks_budgets(self, going: list[PodView], victims: dict[str, PodView]) -> bool:
        told = [one for one in (*victims.values(), *going) if not one.deleting]
        return bool(self.budgets.broken_by(told))

    def _cost(self, going: list[PodView], victims: dict[str, PodView], n: int) -> Cost:
        """Compared from left to right: gangs that go whole, the most important victim, their sum, their number, who has
        run longest, the order of nodes."""
        told = [one for one in going if not one.deleting]
        priorities = [one.shape.priority for one in told]
        highest = max(priorities, default=-(2**31))
        everybody = {**victims, **{one.uid: one for one in going}}
        gangs = {(one.namespace, one.group) for one in told if self._too_small(one, everybody)}
        begun = min((one.started for one in told if one.shape.priority == highest), default=0.0)
        total = sum(priority + 2**31 for priority in priorities)
        return len(gangs), highest, total, len(told), -begun, int(self.cache.rank_N[n])
