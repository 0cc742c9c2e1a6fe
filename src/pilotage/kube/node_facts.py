"""Answers about nodes alone (labels, taints, zones of volumes), as arrays over the nodes, kept until a node changes.

A question is asked once for each distinct value of a label or set of taints, not once for each node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from pilotage.kube.neighbours import Neighbourhood
from pilotage.kube.pod_rules import Selector
from pilotage.kube.storage import PLACES, Topology
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration
from pilotage.model.workload import BoolArray, FloatArray, IntArray

ANSWERS_KEPT = 512
NAME_FIELD = "metadata.name"  # the one field that node affinity knows beside labels

Answer = TypeVar("Answer", BoolArray, FloatArray)


@dataclass
class NodeFacts:
    """Arrays that are returned are kept: read, never write."""

    neighbours: Neighbourhood
    _names: list[str] = field(default_factory=list)
    _taints: dict[tuple[Taint, ...], int] = field(default_factory=dict)  # distinct sets of them, numbered
    _taints_N: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)

    def take_nodes(self, nodes: Sequence[Node]) -> None:
        self._taints = {}
        self._taints_N = np.array([self._number(node.taints) for node in nodes], np.int64)
        self._names = [node.name for node in nodes]
        self._kept.clear()

    def redescribe(self, changed: Mapping[int, Node]) -> None:
        for n, node in changed.items():
            self._taints_N[n] = self._number(node.taints)
        self._kept.clear()

    def _number(self, taints: tuple[Taint, ...]) -> int:
        return self._taints.setdefault(taints, len(self._taints))

    @property
    def soft_taints(self) -> bool:
        """Whether a node would rather not have pods."""
        there = set(self._taints_N.tolist())
        return any(
            t.effect == "PreferNoSchedule" for taints, kind in self._taints.items() if kind in there for t in taints
        )

    def selected(self, constraints: Constraints) -> BoolArray:
        """Nodes that a selector and required node affinity choose."""
        return self._answer(("selected", constraints.terms, constraints.node_name), lambda: self._selected(constraints))

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> BoolArray:
        """Nodes without a taint that would keep a pod away."""
        rule = Constraints(tolerations=tolerations)
        return self._answer(
            ("tolerated", tolerations), lambda: self._by_taints(lambda taints: rule.allows("", {}, taints)) > 0
        )

    def carrying(self, taint: Taint) -> BoolArray:
        """Nodes with this very taint."""
        return self._answer(("carrying", taint), lambda: self._by_taints(lambda taints: taint in taints) > 0)

    def disliked(self, tolerations: tuple[Toleration, ...]) -> FloatArray:
        """How many taints of each node prefer the pod elsewhere, those that it tolerates left out."""

        def count(taints: tuple[Taint, ...]) -> int:
            soft = (taint for taint in taints if taint.effect == "PreferNoSchedule")
            return sum(not any(one.tolerates(taint) for one in tolerations) for taint in soft)

        return self._answer(("disliked", tolerations), lambda: self._by_taints(count))

    def liked(self, wishes: tuple[tuple[int, Selector], ...]) -> FloatArray:
        """Weights of the preferences that each node's labels meet."""
        return self._answer(("liked", wishes), lambda: self._liked(wishes))

    def beyond(self, topology: Topology) -> BoolArray:
        """Nodes in another zone or region than a volume; nodes without any such label are in all of them."""
        return self._answer(("beyond", topology), lambda: self._beyond(topology))

    def _selected(self, constraints: Constraints) -> BoolArray:
        N = len(self._names)
        named_N = np.array([name == constraints.node_name for name in self._names]) if constraints.node_name else None
        any_N = np.zeros(N, np.bool_) if constraints.terms else np.ones(N, np.bool_)
        for term in constraints.terms:
            any_N |= self._all(term)
        return any_N if named_N is None else any_N & named_N

    def _beyond(self, topology: Topology) -> BoolArray:
        labelled_N, out_N = np.zeros(len(self._names), np.bool_), np.zeros(len(self._names), np.bool_)
        for key in PLACES:
            labelled_N |= self.neighbours.domains(key)[0] >= 0
        for key, zones in topology:
            own, today = Requirement(key, "In", tuple(zones)), Requirement(PLACES[key], "In", tuple(zones))
            has_own_N = self.neighbours.domains(key)[0] >= 0  # else the same label by its newer name
            out_N |= ~np.where(has_own_N, self._meeting(own), self._meeting(today))
        return labelled_N & out_N

    def _liked(self, wishes: tuple[tuple[int, Selector], ...]) -> FloatArray:
        total_N = np.zeros(len(self._names))
        for weight, selector in wishes:
            total_N += weight * self._all(selector.requirements)
        return total_N

    def _all(self, requirements: tuple[Requirement, ...]) -> BoolArray:
        met_N = np.ones(len(self._names), np.bool_)
        for requirement in requirements:
            met_N &= self._meeting(requirement)
        return met_N

    def _meeting(self, requirement: Requirement) -> BoolArray:
        if requirement.key == NAME_FIELD:
            return np.array([requirement.matches({NAME_FIELD: name}) for name in self._names], np.bool_)
        ids_N, values = self.neighbours.domains(requirement.key)
        if requirement.operator == "In":  # of volumes on one node: as many values as nodes
            wanted = set(requirement.values)
            met = [value in wanted for value in values]
        else:
            met = [requirement.matches({requirement.key: value}) for value in values]
        return np.array([*met, requirement.matches({})], np.bool_)[ids_N]  # -1, without the label, is the last entry

    def _by_taints(self, ask: Callable[[tuple[Taint, ...]], float]) -> FloatArray:
        return np.array([ask(taints) for taints in self._taints], np.float64)[self._taints_N]

    def _answer(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        known: Answer | None = self._kept.get(key)
        if known is None:
            known = self._kept[key] = compute()
            if len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return known
