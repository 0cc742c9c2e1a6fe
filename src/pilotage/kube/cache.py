"""The cluster as last seen: nodes, pods, and the arrays they come to.

Everything here is synchronous and called from one task: informers tell what changed, the scheduler asks and assumes.
Nodes that come, go or change are taken in together before the next decision (`refresh`), pods at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from pilotage.kernels.features import encode_some
from pilotage.kube.claims import Claims
from pilotage.kube.client import Json
from pilotage.kube.device_classes import DeviceClasses
from pilotage.kube.neighbours import Neighbourhood
from pilotage.kube.node_facts import NodeFacts
from pilotage.kube.podview import PodView, read_pod
from pilotage.kube.storage import ClaimKey
from pilotage.kube.volumes import Volumes
from pilotage.model.cluster import ClusterState, Node, Placement
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError, StateError
from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray, PodShape
from pilotage.policies.encode import encode_nodes
from pilotage.workloads.fields import Field
from pilotage.workloads.nodespec import read_node
from pilotage.workloads.topology import natural_order

MOST_ASKED = 200  # extended resources that no node has, and pods have asked for

# Finished pods take nothing; they leave such a watch as if they were deleted.
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@dataclass
class Listener:
    """What the scheduler wants to hear."""

    pod_waits: Callable[[PodView], None] = lambda pod: None
    pod_settled: Callable[[PodView], None] = lambda pod: None  # bound, since then in another gang, gone, or not waiting
    room_made: Callable[[str], None] = lambda why: None  # pods that did not fit may fit now
    pod_came: Callable[[PodView], None] = lambda pod: None  # to its node: pods that look at others may fit now
    overcommit: Callable[[PodView, str], None] = lambda pod, what: None  # somebody put it where there was no room
    rejected: Callable[[str, str], None] = lambda pod, why: None  # its node would not have it
    before_bound: Callable[[PodView, str], None] = lambda pod, node: None  # as it waited, and where somebody put it
    claim_changed: Callable[[ClaimKey | None], None] = lambda claim: None  # those that wait for it may fit; None: any


@dataclass
class ClusterCache:
    """Nodes, pods and arrays."""

    listener: Listener = field(default_factory=Listener)
    on_problem: Callable[[str], None] = lambda text: None
    pods: dict[str, PodView] = field(default_factory=dict)  # by uid
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)  # labels by name
    declared: dict[str, frozenset[str]] = field(default_factory=dict)  # features by node
    pool: Constraints | None = None  # nodes that are used; the pods of others are seen all the same
    overcommitted: int = 0  # pods that others put where there was no room
    arrived: int = 0  # pods that were ever taken in
    epoch: int = 0  # number of the set of nodes
    redescribed: list[int] = field(default_factory=list)  # nodes with other labels or taints, in this epoch
    descriptions: int = 0  # how often any node has changed
    measured: Callable[[tuple[Node, ...], FloatArray], None] = lambda nodes, node_NF: None  # fills the load columns

    def __post_init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stale = False  # nodes came, went or have other devices, or pods ask for something new
        self._touched: set[str] = set()  # nodes that are not what the state has
        self._asked: set[str] = set()
        self.neighbours = Neighbourhood()
        self.facts = NodeFacts(self.neighbours)
        self.volumes = Volumes(self.neighbours.mounts, self.listener.claim_changed)
        self.device_classes = DeviceClasses(self.listener.room_made)
        self.claims = Claims(self)
        self._take_state(ClusterState(()))

    def _take_state(self, state: ClusterState) -> None:
        N = len(state.nodes)
        self.state = state
        order = sorted(range(N), key=lambda n: natural_order(state.nodes[n].name))
        self.rank_N: IntArray = np.argsort(np.array(order, np.int64)).astype(np.int64)  # names decide ties
        self.node_NF: FloatArray = encode_nodes(state, self.rank_N)
        self.measured(state.nodes, self.node_NF)
        self.changed_L: IntArray = np.zeros(max(N, 1), np.int64)
        self.changes = 0
        self.epoch += 1
        self.descriptions += 1
        self.redescribed = []
        self.neighbours.take_nodes(state.nodes)
        self.facts.take_nodes(state.nodes)
        self.soft_taints = self.facts.soft_taints

    # Nodes

    def refresh(self) -> None:
        """Takes in what happened to nodes. Nodes keep their places where none was removed."""
        while self._stale or self._touched:  # a second time where a pod of a node that came asks for what nobody has
            touched, self._touched = self._touched, set()
            if self._stale or not self._redescribe(touched):
                self._take_in()

    def _redescribe(self, names: set[str]) -> bool:
        """Takes in other labels and taints, which change nothing about pods. False where it is more than that."""
        changed = {self.state.index[name]: self._nodes[name] for name in names if name in self.state.index}
        many = len(self.redescribed) + len(changed) > len(self.state.nodes)
        if many or len(changed) < len(names) or not self.state.redescribe(changed):
            return False
        self.neighbours.redescribe(changed)
        self.facts.redescribe(changed)
        self.soft_taints = self.facts.soft_taints
        self.redescribed.extend(changed)
        self.descriptions += 1
        for n in changed:
            self.note_change(n)
        return True

    def _take_in(self) -> None:
        self._stale = False
        old = self.state
        kept = [self._nodes[node.name] for node in old.nodes if node.name in self._nodes]
        new = [node for name, node in self._nodes.items() if name not in old.index]
        state, left = old.with_nodes([*kept, *new], self._asked)
        self._take_state(state)
        for uid in left:
            self.neighbours.remove(uid)
        for pod in self.pods.values():  # pods whose node was not known, or has other devices now
            if pod.node and state.placement(pod.uid) is None:
                self._place(pod)
        self.claims.lay_again()

    def put_node(self, node: Node) -> None:
        """A node as it is now; taken in by the next `refresh`."""
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            self._touched.add(node.name)

    def measure(self) -> None:
        """What is measured on nodes has changed: the columns are filled again, and no kept score holds any more."""
        self.measured(self.state.nodes, self.node_NF)
        self.changes += len(self.changed_L) + 1

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """These nodes, as if they had been listed."""
        self._nodes = {node.name: node for node in nodes}
        self._stale = True
        self.refresh()

    def _set_node(self, found: Json) -> None:
        name = found["metadata"]["name"]
        try:
            node = read_node(Field(found, f"node {name}", 1, 1))
        except InputError as error:
            self.on_problem(f"node {name} is left out: {error.problem}")
            self._drop_node(name)
            return
        # All labels count for selectors, also the one that stands for the model.
        labels = tuple(sorted((found["metadata"].get("labels") or {}).items()))
        node = replace(node, labels=labels)
        declared = _declared(tuple((found.get("status") or {}).get("declaredFeatures") or ()))
        before, declared_before = self._nodes.get(name), self.declared.get(name)
        self.declared[name] = declared
        if before != node:
            self._nodes[name] = node
            self._touched.add(name)
            self.listener.room_made("node added" if before is None else "node changed")
        elif declared_before != declared:
            self.listener.room_made("node changed")

    def _drop_node(self, name: str) -> None:
        self.declared.pop(name, None)
        if self._nodes.pop(name, None) is not None:
            self._stale = True
            self.listener.room_made("node gone")  # its zone may have gone with it: spread counts anew

    # Pods

    def take(self, pod: PodView) -> None:
        """A pod as it is now."""
        before = self.pods.get(pod.uid)
        if pod.finished:
            self.drop(pod.uid)
            return
        self.arrived += before is None
        if before is not None and pod.node and before.waits and self.state.placement(pod.uid) is None:
            self.listener.before_bound(before, pod.node)
        self.pods[pod.uid] = pod
        if pod.node:
            self.claims.drop(pod.uid)
            self._settle(pod, before)
            if before is None or not before.node:
                self.listener.pod_settled(pod)
                self.listener.pod_came(pod)
            elif before.group != pod.group:  # another gang counts it now
                self.listener.pod_settled(pod)
        elif pod.waits:
            if self.claims.follow(pod):
                self.listener.room_made("claim dropped")
            self.listener.pod_waits(pod)
        else:
            self.claims.drop(pod.uid)
            self.listener.pod_settled(pod)

    def _settle(self, pod: PodView, before: PodView | None) -> None:
        """A pod that is bound: by us where it was assumed to go, or by anybody anywhere."""
        placement, state = self.state.placement(pod.uid), self.state
        if placement is None:
            self._place(pod)
            return
        same_node = state.nodes[placement.node].name == pod.node
        if state.assumed(pod.uid):
            if same_node and (not pod.devices or pod.devices == placement.devices):
                state.confirm(pod.uid)
            else:
                self.forget(pod.uid)
                self._place(pod)
                self.listener.room_made("pod went elsewhere")
        elif not same_node or (before is not None and before.shape != pod.shape):
            self._unplace(pod.uid)
            self._place(pod)
            self.listener.room_made("pod resized")
        if before is not None and (before.deleting, before.labels) != (pod.deleting, pod.labels):
            self.neighbours.remove(pod.uid)
            self.neighbours.add(pod, pod.node)
            if before.labels == pod.labels:
                self.listener.pod_came(pod)  # to its end: a spread does not count it any more
            else:
                self.listener.room_made("pod changed")

    def drop(self, uid: str) -> None:
        """A pod that is gone or has finished."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        took_room = self.state.placement(uid) is not None or bool(self.claims.node_of(uid))
        self.claims.drop(uid)
        if self.state.assumed(uid):
            self.forget(uid)
        else:
            self._unplace(uid)
        if took_room:
            self.listener.room_made("pod gone")
        self.listener.pod_settled(pod)

    def _place(self, pod: PodView) -> None:
        """Counts a pod that somebody bound, whether or not there is room for it."""
        n = self.state.index.get(pod.node)
        if n is None:
            return  # its node is not known (yet): counted when it comes
        if self.ask_for(pod.shape):
            return  # counted by the next refresh, which makes an axis for what it has
        shape = self._countable(pod.shape, n)
        self.state.add(pod.uid, shape, n, self.devices_for(pod.devices, shape, n))
        if self._over(n):
            self.overcommitted += 1
            self.listener.overcommit(pod, self._shortage(n))
        self.neighbours.add(pod, pod.node)
        self.note_change(n)

    def _countable(self, shape: PodShape, n: int) -> PodShape:
        """Devices that the node does not have cannot be counted on it, nor what has no axis."""
        if shape.gpu_count > self.state.arrays.device_count_N[n]:
            shape = replace(shape, gpu_count=0, gpu_milli=0)
        if any(name not in self.state.resources for name, _ in shape.extended):
            shape = replace(shape, extended=tuple(e for e in shape.extended if e[0] in self.state.resources))
        return shape

    def _over(self, n: int) -> bool:
        """Whether pods on the node take more than it has; what is only claimed does not count."""
        arrays = self.state.arrays
        if (arrays.free_NR[n] >= 0).all() and (arrays.device_left_ND[n] >= 0).all():
            return False
        claimed_R, claimed_D = self.claims.taken_on(n)
        over = (arrays.free_NR[n] + claimed_R < 0).any() or (arrays.device_left_ND[n] + claimed_D < 0).any()
        return bool(over)

    def _shortage(self, n: int) -> str:
        """What is short on the node, in words."""
        arrays, resources = self.state.arrays, self.state.resources
        short = [f"{-int(arrays.free_NR[n, r])} {resources[r]}" for r in np.flatnonzero(arrays.free_NR[n] < 0)]
        short += [f"{-int(arrays.device_left_ND[n, d])} milli of GPU {d}" for d in self._short_devices(n)]
        return ", ".join(short)

    def _short_devices(self, n: int) -> list[int]:
        return [int(d) for d in np.flatnonzero(self.state.arrays.device_left_ND[n] < 0)]

    def devices_for(self, mask: int, shape: PodShape, n: int) -> int:
        """Those an annotation names; else the lowest with room, as nobody wrote down which they are."""
        count = int(self.state.arrays.device_count_N[n])
        if mask.bit_count() == shape.gpu_count and not mask >> count:
            return mask
        left_D = self.state.arrays.device_left_ND[n]
        order = sorted(range(count), key=lambda d: (left_D[d] < (shape.gpu_milli or GPU_MILLI), d))
        return sum(1 << d for d in order[: shape.gpu_count])

    def _unplace(self, uid: str) -> None:
        placement = self.state.placement(uid)
        if placement is not None:
            self.state.remove(uid)
            self.neighbours.remove(uid)
            self.note_change(placement.node)

    # What the scheduler does

    def assume(self, pod: PodView, n: int, devices: int, sequence: int) -> None:
        """Takes the room before the API server knows."""
        self.claims.drop(pod.uid)
        self.state.assume(pod.uid, pod.shape, n, devices)
        self.state.arrays.last_placed_N[n] = sequence
        self.neighbours.add(pod, self.state.nodes[n].name)
        self.note_change(n)

    def forget(self, uid: str) -> None:
        """The binding failed: the room is free again."""
        placement = self.state.placement(uid)
        if placement is not None and self.state.assumed(uid):
            self.state.forget(uid)
            self.neighbours.remove(uid)
            self.note_change(placement.node)

    def lift(self, uid: str) -> Placement:
        """Takes a bound pod off its node, to see what would fit then; `put_back` is its undoing."""
        placement = self.state.placement(uid)
        if placement is None:
            raise StateError(f"pod {uid!r} has no node")
        self._unplace(uid)
        return placement

    def put_back(self, pod: PodView, placement: Placement) -> None:
        self.state.add(pod.uid, placement.shape, placement.node, placement.devices)
        self.neighbours.add(pod, pod.node)
        self.note_change(placement.node)

    def ask_for(self, shape: PodShape) -> bool:
        """Extended resources that no node has get an axis by the next refresh, so that a message can name them.

        Whether that refresh is needed. Anybody can invent names, so there is an end to it.
        """
        if not shape.extended:
            return False
        unknown = {name for name, _ in shape.extended} - set(self.state.resources)
        fresh = unknown - self._asked
        if fresh and len(self._asked) + len(fresh) <= MOST_ASKED:
            self._asked |= fresh
            self._stale = True
        return not unknown.isdisjoint(self._asked)

    def note_change(self, n: int) -> None:
        """What is free on a node has changed: its features follow, and its kept scores do not hold any more."""
        self.changed_L[self.changes % len(self.changed_L)] = n
        self.changes += 1
        encode_some(self.state.arrays, self.rank_N, np.array([n], np.int64), self.node_NF)

    def waiting(self) -> Iterator[PodView]:
        return (pod for pod in self.pods.values() if pod.waits and self.state.placement(pod.uid) is None)


@lru_cache
def _declared(features: tuple[str, ...]) -> frozenset[str]:
    """One for all nodes that declare the same."""
    return frozenset(features)


@dataclass
class NodeFollower:
    """Of /api/v1/nodes."""

    cache: ClusterCache

    def listed(self, objects: list[Json]) -> None:
        names = {found["metadata"]["name"] for found in objects}
        for name in [name for name in self.cache._nodes if name not in names]:
            self.cache._drop_node(name)
        for found in objects:
            self.cache._set_node(found)

    def changed(self, found: Json) -> None:
        self.cache._set_node(found)

    def deleted(self, last: Json) -> None:
        self.cache._drop_node(last["metadata"]["name"])


@dataclass
class PodFollower:
    """Of /api/v1/pods, without those that have finished."""

    cache: ClusterCache

    def read(self, found: Json) -> PodView:
        return read_pod(found)

    def listed(self, objects: list[Json]) -> None:
        self.listed_as_read([*map(read_pod, objects)])

    def listed_as_read(self, objects: list[PodView]) -> None:
        uids = {pod.uid for pod in objects}
        for uid in [uid for uid in self.cache.pods if uid not in uids]:
            self.cache.drop(uid)
        for pod in objects:
            self.cache.take(pod)

    def changed(self, found: Json) -> None:
        self.cache.take(read_pod(found))

    def deleted(self, last: Json) -> None:
        self.cache.drop(last["metadata"]["uid"])


@dataclass
class NamespaceFollower:
    """Of /api/v1/namespaces: their labels."""

    cache: ClusterCache

    def listed(self, objects: list[Json]) -> None:
        names = {found["metadata"]["name"] for found in objects}
        for name in [name for name in self.cache.namespaces if name not in names]:
            del self.cache.namespaces[name]
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        name, labels = found["metadata"]["name"], found["metadata"].get("labels") or {}
        if self.cache.namespaces.get(name) != labels:
            self.cache.namespaces[name] = labels
            self.cache.listener.room_made("namespace changed")

    def deleted(self, last: Json) -> None:
        self.cache.namespaces.pop(last["metadata"]["name"], None)
