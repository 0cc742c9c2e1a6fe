"""A third party that watches what becomes of pods: what a measurement believes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kube.client import Client, Json
from pilotage.kube.podview import GPU_INDEX
from pilotage.kube.watch import Informer
from pilotage.model.clock import Clock
from pilotage.model.errors import InputError

IDLE_SECONDS = 300.0  # without anything decided: nobody schedules


@dataclass
class BoundPods:
    """When pods got their nodes, and which."""

    clock: Clock
    wanted: int
    node_of: dict[str, str] = field(default_factory=dict)  # by uid
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
            self.last_at = self.clock.now()
            self.first_at = self.first_at or self.last_at
            if len(self.node_of) >= self.wanted:
                self.complete.set()

    def deleted(self, last: Json) -> None:
        pass


async def until_bound(client: Client, namespace: str, bound: BoundPods, seconds: float) -> bool:
    """Watches a namespace until as many pods as wanted are bound; False when the time is over before."""
    informer = Informer(client, f"/api/v1/namespaces/{namespace}/pods", bound)
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(bound.complete.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
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
