"""Following the objects of one kind: list them, then watch what happens to them, for ever.

A list is consistent and paged. A watch goes on from the last resourceVersion, also after its normal end and after
faults of the network; only when the server no longer knows that version (410), or answers it with one error after
another, is everything listed again. Faults, and watches that end at once, are waited out with a pause that grows to a
limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import orjson

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import EndedError, ExpiredError, KubeError, UnreachableError
from pilotage.kube.many import first_of

WATCH_SECONDS = 90  # after which the server ends a watch: of kinds where nothing happens it may send no bookmark either
IDLE_SECONDS = 120.0  # so that after longer silence the connection is dead
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
MOST_ERRORS = 3  # that a watch may tell, with no event between them, before everything is listed again
GONE = 410
LISTED_AGAIN = "the watch was too old; everything is listed again"


class Follower(Protocol):
    """What is told about objects. Calls come from one task, in order, and must not block."""

    def listed(self, objects: list[Json]) -> None:
        """All there are; others that were known are gone."""
        ...

    def changed(self, found: Json) -> None:
        """Added or modified."""
        ...

    def deleted(self, last: Json) -> None: ...


@runtime_checkable
class PageFollower(Follower, Protocol):
    """One of objects that are many: as JSON they would take several times the memory of what it keeps of them."""

    def read(self, found: Json) -> object:
        """What it keeps of an object while the other pages of the list come."""
        ...

    def listed_as_read(self, objects: list[Any]) -> None:
        """As `listed`, of what `read` returned."""
        ...


@dataclass
class Informer:
    """Keeps a follower up to date."""

    client: Client
    path: str
    follower: Follower
    params: dict[str, str] = field(default_factory=dict)
    on_fault: Callable[[str], None] = lambda text: None
    on_sync: Callable[[], None] = lambda: None
    lists: int = 0  # full lists so far
    faults: int = 0
    failing: bool = False  # since the last fault nothing has been heard
    _version: str = ""
    _errors: int = 0  # told by watches since the last event
    _pause: float = FIRST_PAUSE  # the next one

    def __post_init__(self) -> None:
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                began = asyncio.get_running_loop().time()
                if await self._watch() or asyncio.get_running_loop().time() - began >= LONGEST_PAUSE:
                    self._pause = FIRST_PAUSE
                    continue
            except ExpiredError:
                self._version = ""
                self.on_fault(f"{self.path}: {LISTED_AGAIN}")
            except (KubeError, UnreachableError) as error:
                if isinstance(error, KubeError) and error.status == GONE:
                    self._version = ""
                self.faults += 1
                self.failing = True
                self.on_fault(f"{self.path}: {error}")
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def forget(self) -> None:
        """The next `run` begins with a list, as the first one did."""
        self._version = ""
        self.synced.clear()

    async def _list(self) -> None:
        follower, path, params = self.follower, self.path, self.params
        if isinstance(follower, PageFollower):
            kept, version = await self.client.list_read(path, follower.read, **params)
            follower.listed_as_read(kept)
        else:
            objects, version = await self.client.list_all(path, **params)
            follower.listed(objects)
        self.lists += 1
        self._version = version
        self.failing = False
        self.synced.set()
        self.on_sync()

    async def _watch(self) -> int:
        """Until the server ends it. How many events it told."""
        events = 0
        async with aclosing(self._lines()) as lines:
            async for some in lines:
                self.failing = False
                for line in some:
                    if line:
                        self._take(_event(line))
                        self._pause, self._errors = FIRST_PAUSE, 0
                        events += 1
        return events

    def _lines(self) -> AsyncGenerator[list[bytes], None]:
        params = {
            **self.params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        return self.client.lines(self.path, params, IDLE_SECONDS)

    def _take(self, event: Json) -> None:
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            if found.get("code") == GONE:
                raise ExpiredError(str(found.get("message") or "the watch is too old"))
            self._errors += 1
            if self._errors % MOST_ERRORS == 0:  # an event that the server cannot send would be the next one for ever
                self._version = ""
            raise KubeError(int(found.get("code") or 500), str(found.get("reason") or ""), str(found.get("message")))
        version = found["metadata"]["resourceVersion"]
        if kind in ("ADDED", "MODIFIED"):
            self.follower.changed(found)
        elif kind == "DELETED":
            self.follower.deleted(found)
        self._version = version  # after the follower took it: an event is never skipped


@dataclass
class Running:
    """Informers at work."""

    informers: Sequence[Informer]
    stop: asyncio.Event
    _tasks: dict[asyncio.Task[None], Informer] = field(default_factory=dict)

    async def begin(self) -> None:
        """Returns when each has listed once, or `stop` is set."""
        self._tasks = {asyncio.create_task(informer.run()): informer for informer in self.informers}
        for task in self._tasks:
            task.add_done_callback(lambda task: None if task.cancelled() else self.stop.set())
        for informer in self.informers:
            await first_of(informer.synced, self.stop)

    async def end(self) -> list[asyncio.Task[None]]:
        """Those that had ended already."""
        ended = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return ended

    async def list_again(self) -> None:
        """Returns when all that is known is newer than this call: a watch may be silent because nobody is there."""
        self.expect_none(await self.end())
        for informer in self.informers:
            informer.forget()
        await self.begin()

    def expect_none(self, ended: list[asyncio.Task[None]]) -> None:
        for task in ended:
            raise EndedError(f"following {self._tasks[task].path}", task.exception()) from task.exception()


@asynccontextmanager
async def running(informers: Sequence[Informer], stop: asyncio.Event) -> AsyncIterator[Running]:
    """They run while the block lasts, which begins when each has listed once, or `stop` is set.

    Nothing that goes wrong in a cluster ends an informer. Should one end all the same, it sets `stop`, and the block
    is followed by the error: a cache that nobody keeps up to date must not be decided on.
    """
    found, ended = Running(informers, stop), list[asyncio.Task[None]]()
    try:
        await found.begin()
        yield found
    finally:
        ended = await found.end()
    found.expect_none(ended)


async def refusal(client: Client, path: str) -> int:
    """0 where the API server has these objects and lets us see them; else 403 or 404."""
    try:
        await client.get(path, limit="1")
    except KubeError as error:
        if error.status in (403, 404):
            return error.status
        raise
    return 0


async def may_list(client: Client, path: str) -> bool:
    return await refusal(client, path) == 0


def _event(line: bytes) -> Json:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict) or "type" not in event:
        raise UnreachableError("an event that is no JSON object")
    return event
