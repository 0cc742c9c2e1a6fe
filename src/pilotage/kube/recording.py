"""What any scheduler does in a cluster, as a trace: arrivals, requests, placements, departures, nodes.

Times are those of the API server where an object carries them (creation, PodScheduled, the end of its containers), else
when the change was seen.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from pilotage.kube.access import Access
from pilotage.kube.client import Client, Json
from pilotage.kube.podview import PodView, gpu_index, read_pod
from pilotage.kube.watch import Informer, running
from pilotage.model.clock import Clock, parse_timestamp
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, Gang, Pod, Workload
from pilotage.workloads.fields import Field
from pilotage.workloads.nodespec import read_node
from pilotage.workloads.podsets import qualified


@dataclass
class Recorded:
    """One pod: what it asked for and what became of it."""

    pod: PodView
    shape_before: PodView  # as first seen: bound pods no longer tell where they were allowed to go
    bound_at: float = math.nan
    ended_at: float = math.inf
    node: str = ""
    devices: int = 0
    constrained: bool = False  # it says more about where it may go than a trace can hold


@dataclass
class Recording:
    """Everything seen so far."""

    clock: Clock
    pods: dict[str, Recorded] = field(default_factory=dict)  # by uid
    nodes: dict[str, Node] = field(default_factory=dict)
    left_out: int = 0  # nodes or pods that could not be read
    nodes_came: int = 0  # after the first list; a trace has all nodes from its beginning to its end
    nodes_went: int = 0

    def see_pod(self, found: Json) -> None:
        view = read_pod(found)
        entry = self.pods.get(view.uid)
        if entry is None:
            self.left_out += bool(view.problem)
            entry = self.pods[view.uid] = Recorded(view, view, constrained=_constrained(found["spec"]))
        entry.pod = view
        if view.node and not entry.node:
            entry.node, entry.devices, entry.bound_at = view.node, view.devices, self._bound_at(found)
        if view.finished and math.isinf(entry.ended_at):
            entry.ended_at = self._ended_at(found)

    def pod_gone(self, uid: str) -> None:
        entry = self.pods.get(uid)
        if entry is not None and math.isinf(entry.ended_at):
            entry.ended_at = self._now()

    def forget_ended(self, but: int) -> None:
        """All that have ended but the newest: whoever records for months would keep every pod there ever was."""
        ended = sorted((entry.ended_at, uid) for uid, entry in self.pods.items() if math.isfinite(entry.ended_at))
        for _, uid in ended[: max(0, len(ended) - but)]:
            del self.pods[uid]

    @property
    def constrained(self) -> int:
        """Pods whose rules about nodes or other pods are not in the trace."""
        return sum(entry.constrained for entry in self.pods.values())

    def see_node(self, found: Json) -> None:
        """Nodes that left stay in the trace: pods were on them."""
        try:
            node = read_node(Field(found, f"node {found['metadata'].get('name')}", 1, 1))
        except InputError:
            self.left_out += 1
            return
        self.nodes[node.name] = replace(node, taints=())

    def workload(self) -> Workload:
        """Pods in the order of their creation; a pod whose name was used before gets a number."""
        used: Counter[str] = Counter()
        made = []
        entries = sorted(self.pods.values(), key=lambda entry: (entry.pod.created, entry.pod.key))
        gangs = _gangs(entries)
        origin = entries[0].pod.created if entries else 0.0
        for entry in entries:
            name = qualified(entry.pod.namespace, entry.pod.name)
            used[name] += 1
            name = name if used[name] == 1 else f"{name}.{used[name]}"
            began = entry.bound_at if entry.node else entry.pod.created
            lasted = FOREVER if math.isinf(entry.ended_at) else max(0.0, entry.ended_at - began)
            arrival = entry.pod.created - origin
            gang = gangs.get(entry.pod.uid)
            made.append(Pod(name, entry.shape_before.shape, arrival=arrival, duration=lasted, gang=gang))
        return Workload.of(made, timed=True)

    def placements(self) -> list[dict[str, object]]:
        """One row per pod that got a node."""
        return [
            {
                "pod": entry.pod.key,
                "scheduler": entry.pod.scheduler,
                "node": entry.node,
                "devices": gpu_index(entry.devices),
                "created": entry.pod.created,
                "bound": entry.bound_at,
                "ended": None if math.isinf(entry.ended_at) else entry.ended_at,
            }
            for entry in sorted(self.pods.values(), key=lambda entry: (entry.pod.created, entry.pod.key))
            if entry.node
        ]

    def _now(self) -> float:
        return self.clock.wall().timestamp()

    def _bound_at(self, found: Json) -> float:
        for entry in found["status"].get("conditions") or ():
            if entry.get("type") == "PodScheduled" and entry.get("status") == "True":
                return _moment(entry.get("lastTransitionTime"), self._now())
        return self._now()

    def _ended_at(self, found: Json) -> float:
        ends = [
            _moment(((status.get("state") or {}).get("terminated") or {}).get("finishedAt"), 0.0)
            for status in found["status"].get("containerStatuses") or ()
        ]
        return max(ends, default=0.0) or self._now()


def _constrained(spec: Json) -> bool:
    return any(spec.get(key) for key in ("nodeSelector", "affinity", "topologySpreadConstraints"))


def _gangs(entries: list[Recorded]) -> dict[str, Gang]:
    """By uid, of entries in the order of their creation.

    A pod that was made after another of its group had ended is in the place of that one, or of the next job with this
    name: it never waited for those before it, and begins another gang.
    """
    names: dict[str, str] = {}
    current: dict[tuple[str, str], tuple[int, float]] = {}  # number of the gang, when the first of it ended
    for entry in entries:
        pod, key = entry.pod, (entry.pod.namespace, entry.pod.group)
        if not pod.group:
            continue
        number, first_end = current.get(key, (1, math.inf))
        if pod.created > first_end:
            number, first_end = number + 1, math.inf
        current[key] = number, min(first_end, entry.ended_at)
        name = qualified(*key)
        names[pod.uid] = name if number == 1 else f"{name}.{number}"
    sizes = Counter(names.values())
    return {uid: Gang(name, sizes[name]) for uid, name in names.items()}


def _moment(text: object, otherwise: float) -> float:
    if not isinstance(text, str):
        return otherwise
    try:
        moment: datetime = parse_timestamp(text)
    except ValueError:
        return otherwise
    return moment.timestamp()


@dataclass
class RecordedPods:
    """Follows /api/v1/pods."""

    recording: Recording

    def listed(self, objects: list[Json]) -> None:
        there = {found["metadata"]["uid"] for found in objects}
        for uid in self.recording.pods.keys() - there:
            self.recording.pod_gone(uid)
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        self.recording.see_pod(found)

    def deleted(self, last: Json) -> None:
        self.recording.see_pod(last)
        self.recording.pod_gone(last["metadata"]["uid"])


@dataclass
class RecordedNodes:
    """Follows /api/v1/nodes."""

    recording: Recording
    _there: set[str] | None = None  # None: nobody has looked yet

    def listed(self, objects: list[Json]) -> None:
        there = {str(found["metadata"]["name"]) for found in objects}
        self._now_there(there)
        for found in objects:
            self.recording.see_node(found)

    def changed(self, found: Json) -> None:
        name = str(found["metadata"]["name"])
        if name not in (self._there or ()):
            self._now_there({*(self._there or ()), name})
        self.recording.see_node(found)

    def deleted(self, last: Json) -> None:
        self._now_there((self._there or set()) - {last["metadata"]["name"]})
        self.recording.see_node(last)

    def _now_there(self, names: set[str]) -> None:
        if self._there is not None:
            self.recording.nodes_came += len(names - self._there)
            self.recording.nodes_went += len(self._there - names)
        self._there = names


@asynccontextmanager
async def following(
    access: Access, clock: Clock, stop: asyncio.Event, say: Callable[[str], None]
) -> AsyncIterator[Recording]:
    """A recording that is kept up to date while the block lasts; the block begins when everything was seen once."""
    recording = Recording(clock)
    async with Client(access, agent="pilotage-record") as client:
        informers = [
            Informer(client, "/api/v1/nodes", RecordedNodes(recording), on_fault=say),
            Informer(client, "/api/v1/pods", RecordedPods(recording), on_fault=say),
        ]
        async with running(informers, stop):
            yield recording
