"""A dashboard in a thread of the test, and clusters for it that are told to the real cache as an API server would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kube.objects import a_node, a_pod
from pilotage.dashboard.access import Guard
from pilotage.dashboard.protocol import ConnectionLimits
from pilotage.dashboard.serving import LIMITS, Place, serving
from pilotage.dashboard.source import Source
from pilotage.dashboard.watching import WatchedCluster, WatchedEvents, WatchedPods
from pilotage.kube.access import Access
from pilotage.kube.cache import NodeFollower
from pilotage.kube.client import Client, Json
from pilotage.model.clock import SystemClock

T = TypeVar("T")

SHARE = {"alibabacloud.com/gpu-milli": "400", "alibabacloud.com/gpu-count": "1"}
NO_CPU = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."


@dataclass
class Told:
    """A watched cluster whose watches are played by the test."""

    cluster: WatchedCluster

    def __post_init__(self) -> None:
        self._nodes, self._pods = NodeFollower(self.cluster.cache), WatchedPods(self.cluster)
        self._events = WatchedEvents(self.cluster)

    def nodes(self, *nodes: Json) -> None:
        for node in nodes:
            self._nodes.changed(node)

    def node_gone(self, name: str) -> None:
        self._nodes.deleted(a_node(name))

    def pod(self, name: str, *, condition: str = "", **more: Any) -> None:
        found = a_pod(name, **more)
        if condition:
            found["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": condition}]
        self._pods.changed(found)

    def placed(self, name: str, node: str, **more: Any) -> None:
        """Seen waiting, then bound."""
        self.pod(name, **more)
        self.pod(name, node=node, **more)

    def pod_gone(self, name: str) -> None:
        self._pods.deleted(a_pod(name))

    def event(self, pod: str, reason: str, note: str) -> None:
        self._events.changed(
            {
                "regarding": {"kind": "Pod", "name": pod, "uid": f"uid-{pod}"},
                "reportingController": "some-scheduler",
                "eventTime": "2026-01-01T00:00:00.250000Z",
                "reason": reason,
                "note": note,
            }
        )


def told_cluster() -> Told:
    """Nothing in it yet."""
    access = Access(server="https://cluster.example:6443", tls=None, server_name=None, tokens=None)
    cluster = WatchedCluster(Client(access), SystemClock())
    cluster.synced.set()
    return Told(cluster)


def gpu_nodes(count: int) -> list[Json]:
    labels = {"alibabacloud.com/gpu-card-model": "V100M32", "topology.kubernetes.io/zone": "z1"}
    return [a_node(f"node-{n}", cpu="64", gpus=8, labels=labels) for n in range(count)]


@dataclass
class Served:
    """Where a page is, and the loop it runs in."""

    url: str
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]
    pages: Callable[[], int]  # that follow

    def wait(self, seconds: float) -> None:
        SystemClock().wait(seconds)

    def do(self, action: Callable[[], T]) -> T:
        """Carries it out in the loop's thread, where sources are asked."""
        done: Future[T] = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(action()))
        return done.result(timeout=30)


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


@contextmanager
def a_page(
    source: Source,
    guard: Guard = Guard(),
    certificate: Path | None = None,
    key: Path | None = None,
    port: int = 0,
    limits: ConnectionLimits = LIMITS,
) -> Iterator[Served]:
    started: Future[Served] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        place = Place("127.0.0.1", port, guard, certificate, key)
        async with serving(source, SystemClock(), place, limits) as page:
            feed = page.dashboard.feed
            started.set_result(Served(page.url, loop, lambda: _set(loop, stop), lambda: feed.pages))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    served = started.result(timeout=30)
    try:
        yield served
    finally:
        served.stop()
        thread.join(timeout=30)
        assert not thread.is_alive()
