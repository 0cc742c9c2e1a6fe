"""Following objects: through normal ends, lost connections and versions that the server has forgotten."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import orjson
import pytest
from aiohttp import web

from kube.servers import a_client, until
from pilotage.kube.client import Json
from pilotage.kube.watch import IDLE_SECONDS, Informer


@dataclass
class Noted:
    """Keeps what it is told."""

    told: list[tuple[str, object]] = field(default_factory=list)

    def listed(self, objects: list[Json]) -> None:
        self.told.append(("listed", [o["metadata"]["name"] for o in objects]))

    def changed(self, found: Json) -> None:
        self.told.append(("changed", found["metadata"]["name"]))

    def deleted(self, last: Json) -> None:
        self.told.append(("deleted", last["metadata"]["name"]))


def event(kind: str, name: str, version: int) -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}) + b"\n"


@dataclass
class Scripted:
    """Lists and watches as written down; a watch after the last one stays open."""

    lists: list[tuple[list[str], int]]
    watches: list[list[bytes]]
    asked_from: list[str] = field(default_factory=list)
    seconds: set[str] = field(default_factory=set)  # that watches asked for

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            names, version = self.lists.pop(0)
            items = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in names]
            return web.json_response({"items": items, "metadata": {"resourceVersion": str(version)}})
        self.asked_from.append(request.query["resourceVersion"])
        self.seconds.add(request.query["timeoutSeconds"])
        stream = web.StreamResponse()
        await stream.prepare(request)
        if not self.watches:
            await asyncio.Event().wait()
        for line in self.watches.pop(0):
            await stream.write(line)
        return stream


def followed(script: Scripted, wanted: int, noted: Noted | None = None) -> tuple[Noted, Informer]:
    noted = noted or Noted()

    async def run() -> tuple[Noted, Informer]:
        async with a_client(script.answer) as client:
            informer = Informer(client, "/api/v1/things", noted)
            task = asyncio.create_task(informer.run())
            await until(lambda: len(noted.told) >= wanted and not script.watches, f"{wanted} calls")
            await until(lambda: len(script.asked_from) > 0, "a watch")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return noted, informer

    return asyncio.run(run())


def test_a_watch_goes_on_where_the_last_one_ended() -> None:
    first = [event("ADDED", "b", 6), event("BOOKMARK", "", 9)]
    whole = event("MODIFIED", "b", 10)
    script = Scripted([(["a"], 5)], [first, [whole[:11], whole[11:], event("DELETED", "a", 11)], []])
    noted, informer = followed(script, 4)
    assert noted.told == [("listed", ["a"]), ("changed", "b"), ("changed", "b"), ("deleted", "a")]
    assert script.asked_from[:3] == ["5", "9", "11"]
    assert informer.lists == 1
    assert informer.synced.is_set()


def test_a_forgotten_version_means_listing_again() -> None:
    gone = orjson.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}) + b"\n"
    script = Scripted([(["a"], 5), (["c"], 50)], [[event("ADDED", "b", 6), gone], []])
    noted, informer = followed(script, 3)
    assert noted.told == [("listed", ["a"]), ("changed", "b"), ("listed", ["c"])]
    assert script.asked_from[:2] == ["5", "50"]
    assert informer.lists == 2


def test_what_is_no_event_is_waited_out() -> None:
    script = Scripted([(["a"], 5)], [[b"<html>\n"], [event("ADDED", "b", 6)]])
    noted, informer = followed(script, 2)
    assert noted.told == [("listed", ["a"]), ("changed", "b")]
    assert informer.faults == 1
    assert script.asked_from[:2] == ["5", "5"]


def error(code: int) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": {"code": code, "message": "something"}}) + b"\n"


@pytest.mark.parametrize("watch", [[], [error(410)]], ids=["ends", "expired"])
def test_watches_that_end_at_once_are_not_begun_again_without_a_pause(watch: list[bytes]) -> None:
    """There were a thousand in a second."""
    script = Scripted([(["a"], 5)] * 10_000, [watch] * 10_000)

    async def run() -> None:
        async with a_client(script.answer) as client:
            task = asyncio.create_task(Informer(client, "/api/v1/things", Noted()).run())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert 2 <= len(script.asked_from) <= 4  # at 0, 0.1, 0.3 and 0.7 s


def test_a_watch_that_told_something_goes_on_at_once() -> None:
    script = Scripted([(["a"], 5)], [[event("ADDED", "b", version)] for version in range(6, 106)])
    began = time.monotonic()
    followed(script, 101)
    assert time.monotonic() - began < 5  # a pause after each would take ten seconds


def test_a_watch_that_tells_one_error_after_another_means_listing_again() -> None:
    """An event that the server cannot decode is the next one of this version for ever."""
    script = Scripted([(["a"], 5), (["c"], 50)], [[error(500)], [error(500)], [error(500)], []])
    noted, informer = followed(script, 2)
    assert noted.told == [("listed", ["a"]), ("listed", ["c"])]
    assert script.asked_from[:4] == ["5", "5", "5", "50"]
    assert informer.faults == 3


def test_the_server_ends_a_quiet_watch_before_it_is_taken_for_dead() -> None:
    """Kinds where nothing happens get no bookmarks: their watches were faults every two minutes."""
    script = Scripted([(["a"], 5)], [[event("ADDED", "b", 6)]])
    followed(script, 2)
    assert all(float(seconds) < IDLE_SECONDS for seconds in script.seconds)


@dataclass
class NotedByPage(Noted):
    """Keeps names alone while a list comes."""

    def read(self, found: Json) -> str:
        return str(found["metadata"]["name"])

    def listed_as_read(self, objects: list[str]) -> None:
        self.told.append(("read", objects))


def test_who_reads_page_by_page_is_told_what_it_read() -> None:
    """The JSON of fifty thousand pods at once takes several times the memory of what is kept of them."""
    script = Scripted([(["a", "b"], 3)], [[event("ADDED", "c", 4)]])
    noted, _ = followed(script, 2, NotedByPage())
    assert noted.told == [("read", ["a", "b"]), ("changed", "c")]
