"""What callers say of nodes: their snapshots, kept by session so that unchanged nodes travel as a number.

A session is a cluster of its own. Its pods are not known, only what they come to on each node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView, device_mask
from pilotage.model.clock import Clock
from pilotage.model.cluster import MAX_DEVICES, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import GPU_MILLI, IntArray
from pilotage.serving.problems import invalid, unknown_nodes
from pilotage.serving.scoring import Scoring
from pilotage.serving.wire import NODES_KEPT, Candidate, NodeState, NumberedCandidates, ToldNode
from pilotage.workloads.fields import Field
from pilotage.workloads.nodespec import model_of
from pilotage.workloads.podspec import SHARE_COUNT, SHARE_MILLI, WHOLE_DEVICES, whole_devices

SESSIONS_KEPT = 8
SESSION_SECONDS = 3600.0  # then all is sent again: nodes that are gone are forgotten so
MAX_ADDRESS = 64  # characters
RESOURCES_KEPT = 256
PODS_REMEMBERED = 10_000  # what a session's policies expect is what it asks for
NOWHERE = -1
NO_GENERATION = -1
EPHEMERAL = "ephemeral-storage"
_NO_RESOURCE = (*WHOLE_DEVICES, SHARE_COUNT, SHARE_MILLI)


@dataclass
class Session:
    """One caller's snapshot."""

    scoring: Scoring
    began: float
    addresses: dict[str, str]  # by node; measurements may call it so
    generation_N: IntArray = field(default_factory=lambda: np.full(NODES_KEPT, NO_GENERATION, np.int64))
    place_M: IntArray = field(default_factory=lambda: np.full(NODES_KEPT, NOWHERE, np.int64))  # by caller's number
    _allocatable: dict[str, NodeState] = field(default_factory=dict)
    _resources: set[str] = field(default_factory=set)  # each is a column of the arrays

    @property
    def cache(self) -> ClusterCache:
        return self.scoring.cache

    def take(self, told: Sequence[Candidate | ToldNode]) -> None:
        """Remembers what is told of nodes: those with a state. They keep their places: a session never drops a node."""
        told_states = [(one, one.state) for one in told if one.state is not None]
        for one, state in told_states:
            self._take_node(one.name, state)
        self.cache.refresh()
        for one, state in told_states:
            self._take_usage(one, state)

    def named(self, candidates: Sequence[Candidate]) -> IntArray:
        """Places of candidates, after taking in what is told of them; refuses where a generation is not known."""
        self.take(candidates)
        names, index = [one.name for one in candidates], self.cache.state.index
        generations = [NO_GENERATION if one.generation is None else one.generation for one in candidates]
        places = [index.get(name, NOWHERE) for name in names]
        return self._known(np.array(places, np.int64), np.array(generations, np.int64), names)

    def numbered(self, candidates: NumberedCandidates) -> IntArray:
        """The same by number."""
        numbers, generations = _columns(candidates)
        self.take(candidates.told)
        for one in candidates.told:
            self.place_M[one.number] = self.cache.state.index[one.name]
        return self._known(self.place_M[numbers], generations, numbers)

    def _known(self, place_C: IntArray, generation_C: IntArray, asked: list[str] | NDArray[np.uint32]) -> IntArray:
        known_C = (self.generation_N[place_C] == generation_C) & (place_C != NOWHERE)
        if not known_C.all():
            said: list[str] | list[int] = asked if isinstance(asked, list) else asked.tolist()
            raise unknown_nodes([said[c] for c in np.flatnonzero(~known_C).tolist()], len(said))
        return place_C

    def remember(self, pod: PodView) -> None:
        """A pod that was asked about."""
        pods = self.cache.pods
        pods.pop(pod.uid, None)
        pods[pod.uid] = pod
        if len(pods) > PODS_REMEMBERED:
            del pods[next(iter(pods))]

    def _take_node(self, name: str, state: NodeState) -> None:
        known = self._allocatable.get(name)
        if known is None or known.allocatable != state.allocatable or known.labels != state.labels:
            if known is None and len(self._allocatable) >= NODES_KEPT:
                raise invalid(f"candidates: more than {NODES_KEPT} nodes in one session")
            node = self._node(name, state)
            self._resources |= {key for key, _ in node.extended}
            if len(self._resources) > RESOURCES_KEPT:
                raise invalid(f"candidates: more than {RESOURCES_KEPT} extended resources in one session")
            place = self.cache.state.index.get(name)
            if place is not None:
                self.generation_N[place] = NO_GENERATION
            self.cache.put_node(node)
        self._allocatable[name] = state
        if 0 < len(state.address) <= MAX_ADDRESS:
            self.addresses[name] = state.address

    def _take_usage(self, told: Candidate | ToldNode, state: NodeState) -> None:
        cluster, arrays = self.cache.state, self.cache.state.arrays
        n = cluster.index[told.name]
        used = state.requested
        free_R = arrays.free_NR[n]
        free_R[:] = arrays.capacity_NR[n]
        free_R[:3] -= used.cpu_milli, used.memory_bytes, used.pods
        axis = {name: r for r, name in enumerate(cluster.resources) if r > 2}
        for name, amount in (*used.extended.items(), (EPHEMERAL, used.ephemeral_storage_bytes)):
            if name in axis:
                free_R[axis[name]] -= amount
        scored = state.scored or used
        arrays.scored_used_N2[n] = scored.cpu_milli, scored.memory_bytes
        self._take_devices(n, state)
        self.cache.note_change(n)
        self.generation_N[n] = NO_GENERATION if told.generation is None else told.generation

    def _take_devices(self, n: int, state: NodeState) -> None:
        arrays = self.cache.state.arrays
        count = int(arrays.device_count_N[n])
        left_D, kinds_T = arrays.device_left_ND[n], arrays.kind_count_NT[n]
        left_D[:count], kinds_T[:] = GPU_MILLI, 0
        if not count:
            return
        shares = [
            (device_mask(pod.index), pod.milli, pod.count)
            for pod in state.gpu_pods
            if 0 < pod.milli <= GPU_MILLI and 0 < pod.count <= MAX_DEVICES
        ]
        for mask, milli, wanted in sorted(shares, key=lambda share: share[0] == 0):  # those whose devices are known
            devices = [d for d in range(count) if (mask >> d) & 1]
            if len(devices) != wanted:  # nobody wrote down which they are: the lowest with room
                devices = sorted(range(count), key=lambda d: (left_D[d] < milli, d))[:wanted]
            left_D[devices] -= milli
            kinds_T[0 if wanted == 1 and milli < GPU_MILLI else min(wanted, count)] += 1
        whole = sum(state.requested.extended.get(name, 0) for name in WHOLE_DEVICES)
        idle = [d for d in range(count) if left_D[d] == GPU_MILLI][:whole]
        left_D[idle] = 0
        if whole:
            kinds_T[1] += len(idle)

    def _node(self, name: str, state: NodeState) -> Node:
        offered = state.allocatable
        extended = {key: amount for key, amount in offered.extended.items() if key not in _NO_RESOURCE and amount}
        if offered.ephemeral_storage_bytes:
            extended[EPHEMERAL] = offered.ephemeral_storage_bytes
        return Node(
            name=name,
            cpu_milli=offered.cpu_milli,
            memory_bytes=offered.memory_bytes,
            pods=offered.pods,
            gpu_count=self._devices(name, offered.extended),
            gpu_model=model_of(state.labels),
            extended=tuple(sorted(extended.items())),
            labels=tuple(sorted(state.labels.items())),
        )

    def _devices(self, name: str, offered: dict[str, int]) -> int:
        """None of a node whose devices cannot be told apart: one such node must not spoil the answer for the others."""
        try:
            amounts = {key: 1000 * amount for key, amount in offered.items()}
            gpus = whole_devices(amounts, Field(None, "the request", 1, 1)) or offered.get(SHARE_COUNT, 0)
            problem = f"{gpus} GPUs; expected at most {MAX_DEVICES}" if gpus > MAX_DEVICES else ""
        except InputError as error:
            problem = f"{error.problem}; expected {error.expected}"
        if problem:
            self.cache.on_problem(f"node {name}: its GPUs are not counted: {problem}")
            return 0
        return gpus


def _columns(candidates: NumberedCandidates) -> tuple[NDArray[np.uint32], IntArray]:
    """Numbers and generations."""
    if 2 * len(candidates.numbers) != len(candidates.generations) or len(candidates.numbers) % 4:
        raise invalid("candidates: numbers and generations differ in length; expected 4 and 8 bytes for each candidate")
    number_C, generation_C = np.frombuffer(candidates.numbers, "<u4"), np.frombuffer(candidates.generations, "<i8")
    if number_C.max() >= NODES_KEPT or generation_C.min() < 0:
        raise invalid(f"candidates: expected numbers below {NODES_KEPT} and generations of at least 0")
    return number_C, generation_C


@dataclass
class Sessions:
    """Those used last."""

    make: Callable[[dict[str, str]], Scoring]  # from addresses of nodes
    clock: Clock
    _open: OrderedDict[str, Session] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._open.values())

    def find(self, name: str | None) -> Session:
        """The session of this name; a new one that nobody will find again without a name."""
        now = self.clock.now()
        known = self._open.get(name) if name is not None else None
        if known is not None and now - known.began < SESSION_SECONDS:
            self._open.move_to_end(str(name))
            return known
        addresses: dict[str, str] = {}
        session = Session(self.make(addresses), now, addresses)
        if name is not None:
            self._open[name] = session
            self._open.move_to_end(name)  # where it expired, its place was that of its last use
            while len(self._open) > SESSIONS_KEPT:
                self._open.popitem(last=False)
        return session
