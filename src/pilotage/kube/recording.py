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
from pilotage.model.workload import FOREVER, Pod, Workload
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


@dataclass
class Recording:
    """Everything seen so far."""

    clock: Clock
    pods: dict[str, Recorded] = field(default_factory=dict)  # by uid
    nodes: dict[str, Node] = field(default_factory=dict)
    left_out: int = 0  # nodes or pods that could not be read

    def see_pod(self, found: Json) -> None:
        view = read_pod(found)
        entry = self.pods.get(view.uid)
        if entry is None:
            self.left_out += bool(view.problem)
            entry = self.pods[view.uid] = Recorded(view, view)
        entry.pod = view
        if view.node and not entry.node:
            entry.node, entry.devices, entry.bound_at = view.node, view.devices, self._bound_at(found)
        if view.finished and math.isinf(entry.ended_at):
            entry.ended_at = self._ended_at(found)

    def pod_gone(self, uid: str) -> None:
        entry = self.pods.get(uid)
        if entry is not None and math.isinf(entry.ended_at):
            entry.ended_at = self._now()

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
        origin = entries[0].pod.created if entries else 0.0
        for entry in entries:
            name = qualified(entry.pod.namespace, entry.pod.name)
            used[name] += 1
            name = name if used[name] == 1 else f"{name}.{used[name]}"
            began = entry.bound_at if entry.node else entry.pod.created
            lasted = FOREVER if math.isinf(entry.ended_at) else max(0.0, entry.ended_at - began)
            arrival = entry.pod.created - origin
            made.append(Pod(name, entry.shape_before.shape, arrival=arrival, duration=lasted))
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

    def listed(self, objects: list[Json]) -> None:
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        self.recording.see_node(found)

    def deleted(self, last: Json) -> None:
        self.recording.see_node(last)


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
