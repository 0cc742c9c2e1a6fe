"""The service's own view of a cluster: informers, and whether what they tell can be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pilotage.kube.cache import UNFINISHED, ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json
from pilotage.kube.watch import Informer
from pilotage.model.clock import Clock

STALE_SECONDS = 60.0  # that an API server may be silent before answers are not worth giving
LOOK_SECONDS = 1.0


@dataclass
class _LocatingFollower(NodeFollower):
    """Also hears of nodes' addresses, by which measurements may call them."""

    on_address: Callable[[str, str], None]

    def listed(self, objects: list[Json]) -> None:
        for found in objects:
            self._locate(found)
        super().listed(objects)

    def changed(self, found: Json) -> None:
        self._locate(found)
        super().changed(found)

    def _locate(self, found: Json) -> None:
        for entry in (found.get("status") or {}).get("addresses") or ():
            if entry.get("type") == "InternalIP":
                self.on_address(found["metadata"]["name"], entry["address"])


@dataclass
class Following:
    """One cluster. `cold` until everything was listed once, `stale` when its API server was not heard for too long."""

    client: Client
    cache: ClusterCache
    clock: Clock
    on_problem: Callable[[str], None] = lambda text: None
    stale_seconds: float = STALE_SECONDS
    on_address: Callable[[str, str], None] = lambda node, address: None
    _informers: list[Informer] = field(default_factory=list)
    _silent_since: float | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Following]:
        for path, follower, params in (
            ("/api/v1/namespaces", NamespaceFollower(self.cache), {}),
            ("/api/v1/nodes", _LocatingFollower(self.cache, self.on_address), {}),
            ("/api/v1/pods", PodFollower(self.cache), UNFINISHED),
        ):
            self._informers.append(Informer(self.client, path, follower, params, on_fault=self.on_problem))
        tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
        tasks.append(asyncio.create_task(self._look()))
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            self.silence()
            await asyncio.sleep(LOOK_SECONDS)

    def silence(self) -> float:
        """Seconds since the first of the watches that fail now began to."""
        if not any(informer.failing for informer in self._informers):
            self._silent_since = None
            return 0.0
        now = self.clock.now()
        if self._silent_since is None:
            self._silent_since = now
        return now - self._silent_since

    def obstacle(self) -> str:
        """Why the view cannot be relied on now; "" when it can."""
        waiting = [informer.path for informer in self._informers if not informer.synced.is_set()]
        if waiting or not self._informers:
            return f"cold: not listed yet: {', '.join(waiting) or 'anything'}"
        silent = self.silence()
        return f"stale: the API server was not heard for {silent:.0f} s" if silent > self.stale_seconds else ""
