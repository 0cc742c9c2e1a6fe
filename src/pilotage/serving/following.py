"""The service's own view of a cluster: informers, and whether what they tell can be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from pilotage.kube.cache import UNFINISHED, ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json, Seen
from pilotage.kube.watch import Follower, Informer
from pilotage.model.clock import Clock

STALE_SECONDS = 60.0  # that an API server may be silent before answers are not worth giving
AGAIN_SECONDS = 5.0  # after an object that could not be taken in


@dataclass
class _LocatingFollower(NodeFollower):
    """Also hears of nodes' addresses, by which measurements may call them."""

    addresses: dict[str, str]

    def listed(self, objects: list[Json]) -> None:
        self.addresses.clear()
        for found in objects:
            self._locate(found)
        super().listed(objects)

    def changed(self, found: Json) -> None:
        self._locate(found)
        super().changed(found)

    def deleted(self, last: Json) -> None:
        self.addresses.pop(last["metadata"]["name"], None)
        super().deleted(last)

    def _locate(self, found: Json) -> None:
        for entry in (found.get("status") or {}).get("addresses") or ():
            if entry.get("type") == "InternalIP":
                self.addresses[found["metadata"]["name"]] = entry["address"]
                return  # of a node with two, the first is its own: the plugin tells that one too


@dataclass
class _Listening:
    """The client as an informer uses it, with a note of when the API server was last heard.

    A server that is there ends every watch after a third of the time that silence may last, and agrees to the next: so
    it is heard also when nothing happens. One that is not there is given up after half of that time.
    """

    client: Client
    clock: Clock
    stale_seconds: float
    heard: float = float("-inf")

    async def list_all(self, path: str, **params: str) -> tuple[list[Json], str]:
        return await self.list_read(path, lambda found: found, **params)

    async def list_read(self, path: str, read: Callable[[Json], Seen], **params: str) -> tuple[list[Seen], str]:
        found = await self.client.list_read(path, read, **params)
        self.heard = self.clock.now()
        return found

    async def lines(
        self, path: str, params: Mapping[str, str], idle_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        given = {**params, "timeoutSeconds": str(max(1, int(self.stale_seconds / 3)))}
        idle = min(idle_seconds, max(1.5, self.stale_seconds / 2))
        async with aclosing(self.client.lines(path, given, idle)) as lines:
            async for some in lines:
                self.heard = self.clock.now()
                yield some


@dataclass
class _Followed:
    """One kind of object."""

    path: str
    follower: Follower
    params: dict[str, str]
    listening: _Listening
    on_problem: Callable[[str], None]
    broken: str = ""  # what could not be taken in, until everything was listed again
    listed: bool = False

    async def run(self) -> None:
        """Until it is cancelled. What an informer cannot cope with is said, and everything is listed again."""
        while True:
            client = cast(Client, self.listening)  # as much of one as an informer needs
            informer = Informer(client, self.path, self.follower, self.params, self.on_problem, self._sync)
            try:
                await informer.run()
            except Exception as error:  # whatever it is: a view that stands still must not pass for a live one
                self.broken = f"{type(error).__name__}: {error}"[:300]
                self.on_problem(f"{self.path}: {self.broken}")
            await asyncio.sleep(AGAIN_SECONDS)

    def _sync(self) -> None:
        self.broken, self.listed = "", True


@dataclass
class Following:
    """One cluster. `cold` until everything was listed once, `stale` when its API server was not heard for too long."""

    client: Client
    cache: ClusterCache
    clock: Clock
    on_problem: Callable[[str], None] = lambda text: None
    stale_seconds: float = STALE_SECONDS
    addresses: dict[str, str] = field(default_factory=dict)  # InternalIPs by node
    pods: Follower | None = None  # in the place of the cache's own: hands on to it what it is told
    _followed: list[_Followed] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Following]:
        self._followed = [
            self._followed_by("/api/v1/namespaces", NamespaceFollower(self.cache), {}),
            self._followed_by("/api/v1/nodes", _LocatingFollower(self.cache, self.addresses), {}),
            self._followed_by("/api/v1/pods", self.pods or PodFollower(self.cache), UNFINISHED),
        ]
        self._tasks = [asyncio.create_task(one.run()) for one in self._followed]
        try:
            yield self
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _followed_by(self, path: str, follower: Follower, params: dict[str, str]) -> _Followed:
        listening = _Listening(self.client, self.clock, self.stale_seconds)
        return _Followed(path, follower, params, listening, self.on_problem)

    def silence(self) -> float:
        """Seconds since the watch was heard that has been silent for longest."""
        return self.clock.now() - min(one.listening.heard for one in self._followed)

    def obstacle(self) -> str:
        """Why the view cannot be relied on now; "" when it can."""
        waiting = [one.path for one in self._followed if not one.listed]
        if waiting or not self._followed:
            return f"cold: not listed yet: {', '.join(waiting) or 'anything'}"
        for one, task in zip(self._followed, self._tasks, strict=True):
            if one.broken or task.done():
                return f"broken: {one.path}: {one.broken or 'is not followed any more'}"
        silent = self.silence()
        return f"stale: the API server was not heard for {silent:.0f} s" if silent > self.stale_seconds else ""
