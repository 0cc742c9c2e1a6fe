"""What a fault must not do, counted: from the audit log, from what a watch has seen, and from the final state.

Nothing here asks the scheduler, and nothing believes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import feasible
from pilotage.kube.podview import PodView
from pilotage.lab.faults.audit import Bindings
from pilotage.lab.faults.history import History, Stay
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import GPU_MILLI, IntArray


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one round, or of several. All but the last three must be 0."""

    lost: int = 0  # pods that fit somewhere and have no node
    bound_twice: int = 0  # second bindings of a uid
    over_capacity: int = 0  # nodes that ever had more on them than they have
    over_devices: int = 0  # devices that ever had more than 1000 milli on them
    half_gangs: int = 0  # gangs with some, but too few of their pods placed
    waiting: int = 0  # pods without a node that fit nowhere
    conflicts: int = 0  # bindings that the API server refused
    unwritten: int = 0  # bindings that are there, but not in the audit log

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def faultless(self) -> bool:
        return not (self.lost or self.bound_twice or self.over_capacity or self.over_devices or self.half_gangs)


def count(
    history: History, bindings: Bindings, nodes: Sequence[Node], now: Sequence[Node], gangs: Mapping[str, int]
) -> Counts:
    """`nodes`: all that ever were there, `now`: those that still are; `gangs`: how many pods each group needs."""
    unbound = history.waiting
    fitting = sum(fits_somewhere(unbound, history, now).values())
    over_nodes, over_devices = overloads(history.stays.values(), nodes)
    seen = {uid: stay.pod.node for uid, stay in history.stays.items()}
    elsewhere = {uid for uid, there in bindings.nodes.items() if uid in seen and seen[uid] not in there}
    return Counts(
        lost=fitting,
        bound_twice=len(bindings.twice | history.moved | elsewhere),
        over_capacity=len(over_nodes),
        over_devices=len(over_devices),
        half_gangs=len(half_gangs(history.pods.values(), gangs)),
        waiting=len(unbound) - fitting,
        conflicts=bindings.conflicts,
        unwritten=len(set(seen) - set(bindings.nodes)),
    )


def overloads(stays: Iterable[Stay], nodes: Sequence[Node]) -> tuple[set[str], set[tuple[str, int]]]:
    """Nodes and devices that had too much on them at some moment; moments are versions of the API server."""
    moments: list[tuple[int, int, Stay]] = []
    for stay in stays:
        moments.append((stay.since, 1, stay))
        if stay.until is not None:
            moments.append((stay.until, -1, stay))
    shapes = [stay.pod.shape for _, _, stay in moments]
    state = ClusterState(nodes, {name for shape in shapes for name, _ in shape.extended})
    used_NR: IntArray = np.zeros_like(state.arrays.capacity_NR)
    device_milli: Counter[tuple[str, int]] = Counter()
    over_nodes: set[str] = set()
    over_devices: set[tuple[str, int]] = set()
    for _, sign, stay in sorted(moments, key=lambda moment: moment[:2]):  # at the same moment, room is made first
        pod, n = stay.pod, state.index.get(stay.pod.node)
        if n is None:
            continue  # a node that is gone has nothing on it
        used_NR[n] += sign * state.demand(pod.shape).request_R
        if (used_NR[n] > state.arrays.capacity_NR[n]).any():
            over_nodes.add(pod.node)
        for device in (d for d in range(pod.devices.bit_length()) if pod.devices >> d & 1):
            device_milli[pod.node, device] += sign * pod.shape.gpu_milli
            there = device < state.arrays.device_count_N[n]
            if device_milli[pod.node, device] > GPU_MILLI * there:
                over_devices.add((pod.node, device))
        if pod.devices.bit_count() != pod.shape.gpu_count:
            over_devices.add((pod.node, -1))  # bound without its devices: nobody knows which it uses
    return over_nodes, over_devices


def half_gangs(pods: Iterable[PodView], gangs: Mapping[str, int]) -> set[str]:
    placed: Counter[str] = Counter()
    for pod in pods:
        placed[pod.group] += bool(pod.node)
    return {name for name, wanted in gangs.items() if 0 < placed[name] < wanted}


def fits_somewhere(pods: Sequence[PodView], history: History, nodes: Iterable[Node]) -> dict[str, bool]:
    """Of pods without a node, whether one has room for them now."""
    if not pods:
        return {}
    cache = ClusterCache()
    cache.set_nodes(nodes)
    for pod in history.pods.values():
        cache.take(pod)
    found: dict[str, bool] = {}
    for pod in pods:
        cache.ask_for(pod.shape)
        cache.refresh()
        found[pod.uid] = bool(feasible(pod, cache).any())
    return found
