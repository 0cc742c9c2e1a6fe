"""A real lab for tests, and waiting for what must come true in it."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pilotage.kube.client import Client, Json
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, down, up
from pilotage.lab.namespaces import ensure_namespace
from pilotage.model.clock import SystemClock

T = TypeVar("T")

DEADLINE = 180.0  # seconds: only a fault takes longer, also on a machine that has much else to do
_numbers = itertools.count()


@contextmanager
def a_lab(directory: Path, settings: LabSettings = LabSettings(), name: str = "tests") -> Iterator[Lab]:
    before = os.environ.get("PILOTAGE_LABS")
    os.environ["PILOTAGE_LABS"] = str(directory)
    try:
        lab = up(name, settings)
        try:
            yield lab
        finally:
            down(name)
    finally:
        if before is None:
            del os.environ["PILOTAGE_LABS"]
        else:
            os.environ["PILOTAGE_LABS"] = before


async def eventually(
    ask: Callable[[], Awaitable[T | None]], what: str, *, seconds: float = DEADLINE, pause: float = 0.05
) -> T:
    """The first answer that is not None; a failure when it takes too long."""
    clock = SystemClock()
    deadline = clock.now() + seconds
    while True:
        answer = await ask()
        if answer is not None:
            return answer
        assert clock.now() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(pause)


def fresh_namespace() -> str:
    """A name that no other test uses."""
    return f"test-{os.getpid()}-{next(_numbers)}"


async def make_namespace(client: Client) -> str:
    name = fresh_namespace()
    await ensure_namespace(client, name, SystemClock())
    return name


async def all_bound(client: Client, namespace: str, *, seconds: float = DEADLINE, pause: float = 0.05) -> None:
    """Waits until every pod has a node. Asks for the others alone: many pods cost the API server what it needs for
    them."""

    async def ask() -> bool | None:
        waiting, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods", fieldSelector="spec.nodeName=")
        return None if waiting else True

    await eventually(ask, "all pods have a node", seconds=seconds, pause=pause)


async def refused_pods(client: Client, namespace: str) -> set[str]:
    """Names of pods that were called unschedulable at any time, also of those that have a node by now."""
    path, selector = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", "reason=FailedScheduling"
    found, _ = await client.list_all(path, fieldSelector=selector)
    return {event["regarding"]["name"] for event in found}


def pod(name: str, *, scheduler: str = "default-scheduler", cpu: str = "1", memory: str = "1Gi", **more: Any) -> Json:
    """The manifest of a small pod; keywords are fields of its spec, `annotations` and `labels` of its metadata."""
    metadata: Json = {"name": name, **{key: more.pop(key) for key in ("annotations", "labels") if key in more}}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
