"""What offers resources: nodes, and the state of a cluster as a struct of arrays.

Axes: N nodes, R resources (CPU_AXIS, MEMORY_AXIS, PODS_AXIS, then the extended ones), D devices per node (the
cluster's largest number), T kinds of GPU pods (0 = share, n = n devices).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pilotage.model.constraints import Taint
from pilotage.model.errors import InputError, StateError
from pilotage.model.workload import GPU_MILLI, BoolArray, IntArray, PodShape

CPU_AXIS, MEMORY_AXIS, PODS_AXIS = 0, 1, 2
MAX_AMOUNT = 2**56  # of a node's resource: a hundred times that still fits an int64
MAX_DEVICES = 62  # the devices of a placement are one bit mask in an int64

# kube-scheduler scores a pod without requests as if it asked for this (GetNonzeroRequests).
SCORED_CPU_MILLI, SCORED_MEMORY_BYTES = 100, 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Node:
    """A machine as Kubernetes describes it. GPUs are `gpu_count` equal devices of 1000 milli."""

    name: str
    cpu_milli: int
    memory_bytes: int
    pods: int = 110
    gpu_count: int = 0
    gpu_model: str = ""
    extended: tuple[tuple[str, int], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()

    @property
    def zone(self) -> str:
        return dict(self.labels).get("topology.kubernetes.io/zone", "")

    @property
    def rack(self) -> str:
        return dict(self.labels).get("topology.kubernetes.io/rack", "")


class ClusterArrays(NamedTuple):
    """The part of a cluster's state that kernels read and write."""

    capacity_NR: IntArray
    free_NR: IntArray
    device_count_N: IntArray
    device_left_ND: IntArray  # milli left on each device; 0 where the node has no such device
    model_N: IntArray  # index into ClusterState.models, -1 = no GPU model
    alive_N: BoolArray
    kind_count_NT: IntArray  # GPU pods on the node by kind
    scored_used_N2: IntArray  # CPU and memory in use as kube-scheduler counts them for scores
    last_placed_N: IntArray  # sequence number of the newest placement, 0 = never
    zone_N: IntArray  # number of the node's zone, -1 = not labelled
    rack_N: IntArray  # number of the node's rack within its zone, -1 = not labelled


class Demand(NamedTuple):
    """What one pod takes from a node, in the axes of one cluster."""

    request_R: IntArray
    scored_2: IntArray
    gpu_milli: int
    gpu_count: int


def shift(cluster: ClusterArrays, demand: Demand, node: int, devices: int, sign: int) -> None:
    """Takes (sign 1) or gives back (sign -1) what a pod uses. Plain loops: kernels compile this very function."""
    for r in range(demand.request_R.shape[0]):
        cluster.free_NR[node, r] -= sign * demand.request_R[r]
    cluster.scored_used_N2[node, 0] += sign * demand.scored_2[0]
    cluster.scored_used_N2[node, 1] += sign * demand.scored_2[1]
    if demand.gpu_count > 0:
        for d in range(cluster.device_count_N[node]):
            if (devices >> d) & 1:
                cluster.device_left_ND[node, d] -= sign * demand.gpu_milli
        kind = 0 if demand.gpu_count == 1 and demand.gpu_milli < GPU_MILLI else demand.gpu_count
        cluster.kind_count_NT[node, kind] += sign


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod is."""

    node: int
    devices: int  # bit mask, 0 for a pod without GPU
    shape: PodShape


def _numbered(labels: Sequence[object]) -> IntArray:
    """Equal labels get equal numbers, in order of appearance; an empty one gets -1."""
    known: dict[object, int] = {}
    return np.array([known.setdefault(label, len(known)) if label else -1 for label in labels], np.int64)


def _as_before(before: Node, node: Node) -> bool:
    """Whether all that arrays hold of a node is the same."""
    same = (before.zone, before.rack) == (node.zone, node.rack)
    return same and replace(before, labels=(), taints=()) == replace(node, labels=(), taints=())


class ClusterState:
    """Nodes and what is placed on them.

    A pod on its way::

        (unknown) --assume--> ASSUMED --confirm--> BOUND --remove--> (unknown)
             |                   |                   ^
             |                   +--forget--> (unknown)
             +--add (seen bound by somebody else)----+

    Assumed and bound pods take resources alike; the difference is that only an assumed pod can be forgotten.
    Any other transition is a StateError and changes nothing.
    """

    def __init__(self, nodes: Sequence[Node], asked: Iterable[str] = ()) -> None:
        """`asked` names extended resources that pods may ask for, whether or not a node has them."""
        self.nodes = tuple(nodes)
        self.index = {node.name: n for n, node in enumerate(self.nodes)}
        if len(self.index) != len(self.nodes):
            raise InputError("two nodes have the same name")
        self.models = tuple(sorted({node.gpu_model for node in self.nodes if node.gpu_count and node.gpu_model}))
        self.resources = (
            "cpu",
            "memory",
            "pods",
            *sorted({key for node in self.nodes for key, _ in node.extended} | set(asked)),
        )
        self.arrays = self._empty_arrays()
        self._tainted = {n for n, node in enumerate(self.nodes) if node.taints}
        self._demands: dict[PodShape, Demand] = {}
        self._assumed: dict[str, Placement] = {}
        self._bound: dict[str, Placement] = {}

    def _empty_arrays(self) -> ClusterArrays:
        N, R = len(self.nodes), len(self.resources)
        count_N = np.array([node.gpu_count for node in self.nodes], np.int64)
        D = max(1, int(count_N.max(initial=0)))
        if D > MAX_DEVICES:
            name = self.nodes[int(count_N.argmax())].name
            raise InputError(f"node {name!r} has {D} GPUs", expected=f"at most {MAX_DEVICES}")
        axis = {name: r for r, name in enumerate(self.resources)}
        capacity_NR = np.zeros((N, R), np.int64)
        for n, node in enumerate(self.nodes):
            capacity_NR[n, :3] = node.cpu_milli, node.memory_bytes, node.pods
            for key, amount in node.extended:
                capacity_NR[n, axis[key]] = amount
        if int(capacity_NR.max(initial=0)) > MAX_AMOUNT:
            most, axis_of_most = divmod(int(capacity_NR.argmax()), R)
            problem = f"node {self.nodes[most].name!r} has too much {self.resources[axis_of_most]}"
            raise InputError(problem, expected=f"at most {MAX_AMOUNT}")
        code = {model: m for m, model in enumerate(self.models)}
        return ClusterArrays(
            capacity_NR=capacity_NR,
            free_NR=capacity_NR.copy(),
            device_count_N=count_N,
            device_left_ND=np.where(np.arange(D) < count_N[:, None], GPU_MILLI, 0).astype(np.int64),
            model_N=np.array([code.get(node.gpu_model, -1) if node.gpu_count else -1 for node in self.nodes], np.int64),
            alive_N=np.ones(N, np.bool_),
            kind_count_NT=np.zeros((N, D + 1), np.int64),
            scored_used_N2=np.zeros((N, 2), np.int64),
            last_placed_N=np.zeros(N, np.int64),
            zone_N=_numbered([node.zone for node in self.nodes]),
            rack_N=_numbered([node.rack and (node.zone, node.rack) for node in self.nodes]),
        )

    def with_nodes(self, nodes: Sequence[Node], asked: Iterable[str] = ()) -> tuple[ClusterState, dict[str, Placement]]:
        """The same pods on a changed set of nodes, and the placements that did not come along.

        Those of nodes that are gone, or whose number of devices is another, are left to the caller: they are indexed as
        here. Costs the nodes, not the pods, where no node is taken out.
        """
        new = ClusterState(nodes, {*self.resources[3:], *asked})
        kept = np.array([n for n, node in enumerate(self.nodes) if new._same_devices(node)], np.int64)
        to = np.array([new.index[self.nodes[n].name] for n in kept], np.int64)
        axes = np.array([new.resources.index(name) for name in self.resources], np.int64)
        old_arrays, arrays = self.arrays, new.arrays
        if len(kept):
            arrays.free_NR[np.ix_(to, axes)] -= (old_arrays.capacity_NR - old_arrays.free_NR)[kept]
            D = min(arrays.device_left_ND.shape[1], old_arrays.device_left_ND.shape[1])
            arrays.device_left_ND[to, :D] = old_arrays.device_left_ND[kept, :D]
            arrays.kind_count_NT[to, : D + 1] = old_arrays.kind_count_NT[kept, : D + 1]
            arrays.scored_used_N2[to] = old_arrays.scored_used_N2[kept]
            arrays.last_placed_N[to] = old_arrays.last_placed_N[kept]
            arrays.alive_N[to] = old_arrays.alive_N[kept]
        place = dict(zip(kept.tolist(), to.tolist(), strict=True))
        left: dict[str, Placement] = {}
        for old, target in ((self._assumed, new._assumed), (self._bound, new._bound)):
            for key, placement in old.items():
                there = place.get(placement.node)
                if there is None:
                    left[key] = placement
                elif there == placement.node:
                    target[key] = placement
                else:
                    target[key] = Placement(there, placement.devices, placement.shape)
        return new, left

    def redescribe(self, changed: Mapping[int, Node]) -> bool:
        """Other labels or taints of some nodes, in place; False, and nothing is done, where more has changed."""
        if not all(_as_before(self.nodes[n], node) for n, node in changed.items()):
            return False
        nodes = list(self.nodes)
        for n, node in changed.items():
            nodes[n] = node
            (self._tainted.add if node.taints else self._tainted.discard)(n)
        self.nodes = tuple(nodes)
        return True

    def _same_devices(self, node: Node) -> bool:
        n = self.index.get(node.name)
        return n is not None and self.nodes[n].gpu_count == node.gpu_count

    def assumed(self, key: str) -> bool:
        return key in self._assumed

    @property
    def gpu_capacity_milli(self) -> int:
        return GPU_MILLI * int(self.arrays.device_count_N.sum())

    def demand(self, shape: PodShape) -> Demand:
        """The shape in this cluster's axes. A resource nobody told of is asked for on the pods axis: no node fits."""
        known = self._demands.get(shape)
        if known is None:
            request_R = np.zeros(len(self.resources), np.int64)
            request_R[:3] = shape.cpu_milli, shape.memory_bytes, 1
            for key, amount in shape.extended:
                if key in self.resources:
                    request_R[self.resources.index(key)] = amount
                elif amount > 0:
                    request_R[PODS_AXIS] = np.iinfo(np.int64).max // 4
            scored_2 = np.array([shape.cpu_milli or SCORED_CPU_MILLI, shape.memory_bytes or SCORED_MEMORY_BYTES])
            known = Demand(request_R, scored_2.astype(np.int64), shape.gpu_milli, shape.gpu_count)
            self._demands[shape] = known
        return known

    def eligible_N(self, shape: PodShape) -> BoolArray:
        """Nodes that the pod's constraints and GPU model choice allow, whatever is free on them."""
        allowed_N = np.ones(len(self.nodes), np.bool_)
        if shape.gpu_count > 0:
            accepts = np.array([*(shape.accepts_model(model) for model in self.models), shape.accepts_model("")])
            allowed_N = (self.arrays.device_count_N > 0) & accepts[self.arrays.model_N]  # -1 is the last entry
        rules = shape.constraints
        if rules.terms or rules.node_name:
            for n, node in enumerate(self.nodes):
                allowed_N[n] &= rules.allows(node.name, dict(node.labels), node.taints)
        else:  # taints alone decide, and many nodes have the same ones
            tolerated = {
                taints: rules.allows("", {}, taints) for taints in {self.nodes[n].taints for n in self._tainted}
            }
            for n in self._tainted:
                allowed_N[n] &= tolerated[self.nodes[n].taints]
        return allowed_N

    def eligible(self, shape: PodShape, n: int) -> bool:
        """The same of one node."""
        node = self.nodes[n]
        suits = not shape.gpu_count or (node.gpu_count > 0 and shape.accepts_model(node.gpu_model))
        return suits and shape.constraints.allows(node.name, dict(node.labels), node.taints)

    def assume(self, key: str, shape: PodShape, node: int, devices: int = 0) -> None:
        """Takes the resources before the cluster has confirmed the placement. There must be room for them."""
        self._expect_unknown(key)
        self._expect_devices(shape, node, devices)
        if not self._has_room(shape, node, devices):
            raise StateError(f"pod {key!r} does not fit on node {self.nodes[node].name!r}")
        self._take(shape, node, devices)
        self._assumed[key] = Placement(node, devices, shape)

    def confirm(self, key: str) -> None:
        self._bound[key] = self._pop(self._assumed, key, "assumed")

    def forget(self, key: str) -> None:
        """Gives back what an assumed pod took: the binding failed."""
        self._give(self._pop(self._assumed, key, "assumed"))

    def add(self, key: str, shape: PodShape, node: int, devices: int = 0) -> None:
        """A pod seen bound that was never assumed here."""
        self._expect_unknown(key)
        self._take(shape, node, devices)
        self._bound[key] = Placement(node, devices, shape)

    def remove(self, key: str) -> None:
        self._give(self._pop(self._bound, key, "bound"))

    def placement(self, key: str) -> Placement | None:
        return self._assumed.get(key) or self._bound.get(key)

    def placements(self) -> Iterator[tuple[str, Placement]]:
        yield from self._assumed.items()
        yield from self._bound.items()

    def _expect_unknown(self, key: str) -> None:
        if key in self._assumed or key in self._bound:
            raise StateError(f"pod {key!r} is already placed")

    def _pop(self, where: dict[str, Placement], key: str, state: str) -> Placement:
        if key not in where:
            raise StateError(f"pod {key!r} is not {state}")
        return where.pop(key)

    def _has_room(self, shape: PodShape, node: int, devices: int) -> bool:
        left_D = self.arrays.device_left_ND[node]
        enough = all(left_D[d] >= shape.gpu_milli for d in range(len(left_D)) if (devices >> d) & 1)
        request_R = self.demand(shape).request_R
        # What a pod does not ask for may be short: others may have put more on the node than it has.
        return enough and bool(((request_R <= self.arrays.free_NR[node]) | (request_R == 0)).all())

    def _expect_devices(self, shape: PodShape, node: int, devices: int) -> None:
        if devices.bit_count() != shape.gpu_count or devices >> int(self.arrays.device_count_N[node]):
            raise StateError(f"device mask {devices:#b} does not name {shape.gpu_count} devices of the node")

    def _take(self, shape: PodShape, node: int, devices: int) -> None:
        self._expect_devices(shape, node, devices)
        shift(self.arrays, self.demand(shape), node, devices, 1)

    def _give(self, placement: Placement) -> None:
        shift(self.arrays, self.demand(placement.shape), placement.node, placement.devices, -1)
