"""What the page needs to know, and from whom: plain data, and the protocol of whoever knows it.

All calls come from the event loop's thread and must not block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.model.cluster import CPU_AXIS, MEMORY_AXIS, PODS_AXIS, Node
from pilotage.model.workload import IntArray
from pilotage.workloads.nodespec import CORDONED

SILENT = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})  # keys of taints


@dataclass(frozen=True, slots=True)
class NodeTable:
    """All nodes as arrays: views on live ones, to be read at once. Axes: N nodes, 3 = CPU milli, bytes, pods."""

    epoch: int  # another one when nodes came, went or changed
    nodes: Sequence[Node]
    capacity_N3: IntArray
    used_N3: IntArray
    device_count_N: IntArray
    device_left_ND: IntArray  # milli

    @classmethod
    def of(cls, cache: ClusterCache) -> NodeTable:
        cache.refresh()
        state, arrays = cache.state, cache.state.arrays
        axes = [CPU_AXIS, MEMORY_AXIS, PODS_AXIS]
        capacity_N3 = arrays.capacity_NR[:, axes]
        used_N3 = capacity_N3 - arrays.free_NR[:, axes]
        return cls(cache.descriptions, state.nodes, capacity_N3, used_N3, arrays.device_count_N, arrays.device_left_ND)


def condition_of(node: Node) -> str:
    """In one word, as its taints tell."""
    if any(taint.key in SILENT for taint in node.taints):
        return "not ready"
    return "cordoned" if CORDONED in node.taints else "ready"


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod without a node."""

    uid: str
    pod: str  # namespace/name
    profile: str  # schedulerName
    request: str
    since: float  # seconds since 1970
    reason: str  # empty: nobody has said anything yet


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided about a pod."""

    number: int  # grows by one from decision to decision
    time: float  # seconds since 1970
    pod: str
    profile: str  # schedulerName
    policy: str  # empty where it is not known
    request: str
    node: str  # empty: it fits nowhere
    devices: str = ""  # "0-2"
    message: str = ""  # why it fits nowhere
    waited: float | None = None  # seconds until it was bound
    advised: str | None = None  # node that the shadow policy names, empty for none; None: it was not asked

    @property
    def differs(self) -> bool:
        return self.advised is not None and bool(self.node) and self.advised != self.node


@dataclass(frozen=True, slots=True)
class Said:
    """An event about a pod."""

    time: float
    by: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy thought of the nodes when it was asked about a pod."""

    policy: str
    node: str  # empty: it fits nowhere
    verdict: str  # in one sentence
    best: tuple[tuple[str, float], ...] = ()  # nodes with the highest totals, the chosen one first
    candidates: int = 0  # nodes that the pod fitted on
    filtered: tuple[tuple[str, int], ...] = ()  # what took the others out, and how many
    rank: int = 0  # of the node that the pod went to, 1 = the best; 0: it is no candidate, or nobody asked
    shadow: bool = False  # asked, but it did not decide


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a pod went where it went; as much of it as is known."""

    decision: Decision
    verdict: str
    filtered: tuple[tuple[str, int], ...] = ()  # where no policy is known that counted them
    judgements: tuple[Judgement, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class OnNode:
    """A pod that runs on a node."""

    pod: str
    profile: str
    request: str
    devices: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What a source says beside its tables."""

    title: str  # what is watched
    shadow: str = ""  # name of the policy that is asked beside the one that decides
    problem: str = ""  # why what is shown may be old
    missing: str = ""  # what has not been read yet; empty: the cluster was seen as a whole
    figures: Mapping[str, float] = field(default_factory=dict)  # curves of its own, such as "reward"
    policies: Mapping[str, str] = field(default_factory=dict)  # by schedulerName, where it is known


class Source(Protocol):
    """Somebody who knows a cluster."""

    def overview(self) -> Overview: ...

    def nodes(self) -> NodeTable: ...

    def pods_on(self, node: str) -> Sequence[OnNode] | None:
        """None: there is no such node."""
        ...

    def pending(self) -> Sequence[PendingPod]:
        """All pods that wait, in any order."""
        ...

    def decisions(self, after: int) -> Sequence[Decision]:
        """Those with a greater number that are still known, oldest first."""
        ...

    def explain(self, number: int) -> Explained | None:
        """None: not known, or not any more."""
        ...


def used_devices(table: NodeTable) -> IntArray:
    """Milli in use by device (axes ND), -1 where a node has no such device."""
    D = table.device_left_ND.shape[1]
    there_ND = np.arange(D) < table.device_count_N[:, None]
    return np.where(there_ND, 1000 - table.device_left_ND, -1)
