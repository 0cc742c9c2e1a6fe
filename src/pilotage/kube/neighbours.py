"""Which pods are where, for rules between pods: by labels, so that a rule looks at kinds of pods and not at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from pilotage.kube.mounts import Mounts
from pilotage.kube.pod_rules import Port, Term
from pilotage.kube.podview import PodView
from pilotage.model.cluster import Node
from pilotage.model.workload import IntArray


@dataclass
class Kind:
    """Pods that no rule can tell apart."""

    namespace: str
    labels: dict[str, str]
    deleting: bool
    nodes: Counter[str] = field(default_factory=Counter)


Counted = TypeVar("Counted")
KindKey = tuple[str, tuple[tuple[str, str], ...], bool]


@dataclass
class Neighbourhood:
    """Pods that have a node, assumed ones included."""

    kinds: dict[KindKey, Kind] = field(default_factory=dict)
    repelling: dict[Term, Counter[str]] = field(default_factory=dict)  # required anti-affinity: its pods by node
    ports: dict[str, dict[str, tuple[Port, ...]]] = field(default_factory=dict)  # by node and uid
    on_node: dict[str, set[str]] = field(default_factory=dict)  # uids by node
    priorities: Counter[int] = field(default_factory=Counter)  # of the pods
    mounts: Mounts = field(default_factory=Mounts)
    _where: dict[str, tuple[KindKey, str]] = field(default_factory=dict)
    _priority: dict[str, int] = field(default_factory=dict)
    _repels: dict[str, tuple[Term, ...]] = field(default_factory=dict)
    _labels: list[dict[str, str]] = field(default_factory=list)
    _index: dict[str, int] = field(default_factory=dict)
    _domains: dict[str, tuple[IntArray, list[str]]] = field(default_factory=dict)

    def take_nodes(self, nodes: Sequence[Node]) -> None:
        self._labels = [dict(node.labels) for node in nodes]
        self._index = {node.name: n for n, node in enumerate(nodes)}
        self._domains.clear()

    def redescribe(self, changed: Mapping[int, Node]) -> None:
        for n, node in changed.items():
            labels = dict(node.labels)
            if self._labels[n] != labels:
                self._labels[n] = labels
                self._domains.clear()

    def add(self, pod: PodView, node: str) -> None:
        key = (pod.namespace, tuple(sorted(pod.labels.items())), pod.deleting)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self.kinds[key] = Kind(pod.namespace, pod.labels, pod.deleting)
        kind.nodes[node] += 1
        self._where[pod.uid] = key, node
        self.on_node.setdefault(node, set()).add(pod.uid)
        self.priorities[pod.shape.priority] += 1
        self._priority[pod.uid] = pod.shape.priority
        if pod.rules.far:
            self._repels[pod.uid] = pod.rules.far
            for term in pod.rules.far:
                self.repelling.setdefault(term, Counter())[node] += 1
        if pod.rules.ports:
            self.ports.setdefault(node, {})[pod.uid] = pod.rules.ports
        self.mounts.add(pod, node)

    def remove(self, uid: str) -> None:
        key, node = self._where.pop(uid, (None, ""))
        if key is None:
            return
        _take_one(self.kinds[key].nodes, node)
        if not self.kinds[key].nodes:
            del self.kinds[key]
        there = self.on_node[node]
        there.discard(uid)
        if not there:
            del self.on_node[node]
        _take_one(self.priorities, self._priority.pop(uid))
        for term in self._repels.pop(uid, ()):
            _take_one(self.repelling[term], node)
            if not self.repelling[term]:
                del self.repelling[term]
        ports = self.ports.get(node, {})
        if ports.pop(uid, None) is not None and not ports:
            del self.ports[node]
        self.mounts.remove(uid)

    def labels(self, n: int) -> dict[str, str]:
        return self._labels[n]

    def number(self, node: str) -> int:
        """-1 for a node that is not known."""
        return self._index.get(node, -1)

    def domains(self, key: str) -> tuple[IntArray, list[str]]:
        """The number of each node's domain under a label, -1 without the label; and the domains' values."""
        known = self._domains.get(key)
        if known is None:
            values: dict[str, int] = {}
            found = [values.setdefault(own[key], len(values)) if key in own else -1 for own in self._labels]
            known = self._domains[key] = np.array(found, np.int64), list(values)
        return known


def _take_one(counter: Counter[Counted], of: Counted) -> None:
    """What is down to nothing is not there any more: emptiness is asked for."""
    counter[of] -= 1
    if not counter[of]:
        del counter[of]
