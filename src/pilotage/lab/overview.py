"""A cluster at a glance: what nodes have in use, what waits, and what was decided last."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import numpy as np

from pilotage.kube.cache import UNFINISHED, ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json
from pilotage.kube.podview import PodView, gpu_index
from pilotage.kube.watch import Informer
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node
from pilotage.model.workload import GPU_MILLI
from pilotage.workloads.nodespec import CORDONED
from pilotage.workloads.topology import natural_order

NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
DECISIONS_KEPT = 200
GIB = 2**30

State = Literal["ready", "not ready", "cordoned", "tainted"]


@dataclass(frozen=True, slots=True)
class Use:
    """How much of something is asked for, and how much there is."""

    used: float
    capacity: float

    @property
    def share(self) -> float:
        return self.used / self.capacity if self.capacity else 0.0

    def __add__(self, other: Use) -> Use:
        return Use(self.used + other.used, self.capacity + other.capacity)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node. CPU in cores, memory in GiB, GPU in devices."""

    name: str
    state: State
    model: str
    cpu: Use
    memory: Use
    gpu: Use
    pods: Use


@dataclass(frozen=True, slots=True)
class Decision:
    """What a scheduler made of a pod."""

    moment: datetime
    scheduler: str
    pod: str
    node: str  # empty: it fits nowhere
    note: str  # devices, or why not


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at one moment."""

    nodes: tuple[NodeRow, ...]
    cpu_variance: float  # of the nodes' shares in use: 0 is even
    pending: dict[str, int]  # pods that wait, by scheduler
    decisions: tuple[Decision, ...]  # newest first

    def total(self, what: Literal["cpu", "memory", "gpu", "pods"]) -> Use:
        return sum((getattr(row, what) for row in self.nodes), Use(0.0, 0.0))


@dataclass
class Observer(PodFollower):
    """Follows the pods into a cache, and writes down what is decided about them."""

    clock: Clock
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT))

    def changed(self, found: Json) -> None:
        before = self.cache.pods.get(found["metadata"]["uid"])
        super().changed(found)
        after = self.cache.pods.get(found["metadata"]["uid"])
        if after is None:
            return
        if after.node and (before is None or not before.node):
            self._note(after, f"gpu {gpu_index(after.devices)}" if after.devices else "")
        elif after.waits and after.condition and (before is None or before.condition != after.condition):
            self._note(after, after.condition)

    def _note(self, pod: PodView, note: str) -> None:
        self.decisions.append(Decision(self.clock.wall(), pod.scheduler, pod.key, pod.node, note))


class Watched:
    """A cluster that is being looked at."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.cache = ClusterCache()
        self.observer = Observer(self.cache, clock)
        self.informers = (
            Informer(client, "/api/v1/nodes", NodeFollower(self.cache)),
            Informer(client, "/api/v1/pods", self.observer, UNFINISHED),
        )

    def overview(self) -> Overview:
        self.cache.refresh()
        return overview_of(self.cache, self.observer.decisions)


def overview_of(cache: ClusterCache, decisions: Iterable[Decision] = ()) -> Overview:
    arrays, nodes = cache.state.arrays, cache.state.nodes
    used_NR = arrays.capacity_NR - arrays.free_NR
    share_N = used_NR[:, 0] / np.maximum(arrays.capacity_NR[:, 0], 1)
    rows = []
    for n, node in enumerate(nodes):
        devices = int(arrays.device_count_N[n])
        gpu_milli = GPU_MILLI * devices - int(arrays.device_left_ND[n, :devices].sum())
        rows.append(
            NodeRow(
                name=node.name,
                state=_state(node),
                model=node.gpu_model,
                cpu=Use(int(used_NR[n, 0]) / 1000, node.cpu_milli / 1000),
                memory=Use(int(used_NR[n, 1]) / GIB, node.memory_bytes / GIB),
                gpu=Use(gpu_milli / GPU_MILLI, devices),
                pods=Use(int(used_NR[n, 2]), node.pods),
            )
        )
    pending = Counter(pod.scheduler for pod in cache.waiting())
    return Overview(
        nodes=tuple(sorted(rows, key=lambda row: natural_order(row.name))),
        cpu_variance=float(share_N.var()) if len(nodes) else 0.0,
        pending=dict(sorted(pending.items())),
        decisions=tuple(reversed(list(decisions))),
    )


def _state(node: Node) -> State:
    keys = {taint.key for taint in node.taints}
    if keys & set(NOT_READY):
        return "not ready"
    if CORDONED in node.taints:
        return "cordoned"
    return "tainted" if any(taint.effect != "PreferNoSchedule" for taint in node.taints) else "ready"
