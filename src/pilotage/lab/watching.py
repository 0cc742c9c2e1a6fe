"""A third party that watches what becomes of pods: what a measurement believes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kube.client import Client, Json
from pilotage.kube.podview import GPU_INDEX
from pilotage.kube.watch import Informer, running
from pilotage.model.clock import Clock
from pilotage.model.errors import InputError

IDLE_SECONDS = 300.0  # without anything decided: nobody schedules
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
LAST_EVENTS_SECONDS = 5.0  # without one more event: the rest were dropped, as kube-scheduler does when it has too many


@dataclass
class BoundPods:
    """When pods got their nodes, and which; and when it was said of each (see `ScheduledEvents`)."""

    clock: Clock
    wanted: int
    node_of: dict[str, str] = field(default_factory=dict)  # by uid
    said_of: set[str] = field(default_factory=set)  # uids
    first_at: float = 0.0
    last_at: float = 0.0

    def __post_init__(self) -> None:
        self.complete = asyncio.Event()

    def listed(self, objects: list[Json]) -> None:
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        uid, node = found["metadata"]["uid"], found["spec"].get("nodeName")
        if node and uid not in self.node_of:
            self.node_of[uid] = node
            self._note()
            self.first_at = self.first_at or self.last_at

    def deleted(self, last: Json) -> None:
        pass

    def hear(self, uid: str) -> None:
        if uid not in self.said_of:
            self.said_of.add(uid)
            if self.first_at:  # before there is a binding, events are of pods of earlier rounds
                self._note()

    def _note(self) -> None:
        self.last_at = self.clock.now()
        if len(self.node_of) >= self.wanted:
            self.complete.set()

    @property
    def events(self) -> int:
        return len(self.said_of & self.node_of.keys())


@dataclass
class ScheduledEvents:
    """Events that say of pods that they have a node."""

    bound: BoundPods

    def listed(self, objects: list[Json]) -> None:
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        self.bound.hear(str((found.get("regarding") or {}).get("uid")))

    def deleted(self, last: Json) -> None:
        pass


async def until_bound(client: Client, namespace: str, bound: BoundPods, seconds: float) -> bool:
    """Watches a namespace until as many pods as wanted are bound and the last event of it is there.

    False when the time is over before they are bound.
    """
    informers = (
        Informer(client, f"/api/v1/namespaces/{namespace}/pods", bound),
        Informer(client, EVENTS.format(namespace), ScheduledEvents(bound), {"fieldSelector": "reason=Scheduled"}),
    )
    stop = asyncio.Event()
    async with running(informers, stop):
        try:
            await asyncio.wait_for(bound.complete.wait(), seconds)
        except TimeoutError:
            return False
        while bound.events < bound.wanted and bound.clock.now() - bound.last_at < LAST_EVENTS_SECONDS:
            await asyncio.sleep(0.05)
    return True


@dataclass
class SettledPods:
    """Pods of one label that a scheduler has looked at: bound ones, and those it found no place for."""

    label: tuple[str, str] | None
    clock: Clock
    bound: dict[str, tuple[str, str]] = field(default_factory=dict)  # by name: node and gpu-index
    refused: set[str] = field(default_factory=set)
    progress_at: float = 0.0

    def listed(self, objects: list[Json]) -> None:
        self.bound.clear()
        self.refused.clear()
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        metadata, before = found["metadata"], self.settled
        if self.label is not None and (metadata.get("labels") or {}).get(self.label[0]) != self.label[1]:
            return
        name, node = metadata["name"], found["spec"].get("nodeName")
        if node:
            self.refused.discard(name)
            self.bound[name] = (node, (metadata.get("annotations") or {}).get(GPU_INDEX, ""))
        elif any(
            c["type"] == "PodScheduled" and c["status"] == "False" for c in found["status"].get("conditions") or ()
        ):
            self.refused.add(name)
        if self.settled != before:
            self.progress_at = self.clock.now()

    def deleted(self, last: Json) -> None:
        self.bound.pop(last["metadata"]["name"], None)
        self.refused.discard(last["metadata"]["name"])

    @property
    def settled(self) -> int:
        return len(self.bound) + len(self.refused)


async def until_settled(
    client: Client,
    namespace: str,
    pods: int,
    clock: Clock,
    progress: Callable[[SettledPods], None] = lambda found: None,
    label: tuple[str, str] | None = None,
) -> SettledPods:
    """Returns when a scheduler has looked at so many pods of a namespace."""
    found = SettledPods(label, clock, progress_at=clock.now())
    informer = Informer(client, f"/api/v1/namespaces/{namespace}/pods", found)
    task = asyncio.create_task(informer.run())
    try:
        while found.settled < pods:
            if clock.now() - found.progress_at > IDLE_SECONDS:
                problem = f"{pods - found.settled} of {pods} pods were looked at by nobody"
                raise InputError(problem, expected="a scheduler that is named by the pods' schedulerName")
            progress(found)
            await asyncio.sleep(0.1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return found
