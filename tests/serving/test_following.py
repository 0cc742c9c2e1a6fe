"""The service's own view of a cluster says when it cannot be relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson
import pytest
from aiohttp import web

from kube.objects import a_node
from kube.servers import a_client, until
from pilotage.kube.cache import ClusterCache
from pilotage.kube.client import Json
from pilotage.model.clock import VirtualClock
from pilotage.serving import following
from pilotage.serving.following import Following

BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}


class Server:
    """An API server with one node, whose watches say what the test wants, and nothing otherwise."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.lists = 0
        self._watches: dict[str, web.StreamResponse] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            items = [a_node("node-a")] if request.path.endswith("nodes") else []
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        self.asked.append(dict(request.query))
        stream = web.StreamResponse()
        await stream.prepare(request)
        self._watches[request.path] = stream
        await asyncio.sleep(60)
        return stream

    @property
    def watches(self) -> int:
        return len(self._watches)

    async def say(self, event: Json, path: str = "") -> None:
        for watched, stream in list(self._watches.items()):
            if watched.endswith(path):
                await stream.write(orjson.dumps(event) + b"\n")


def followed(check: Callable[[Server, Following, VirtualClock], Awaitable[None]]) -> list[str]:
    """Faults that were told of meanwhile."""
    server, clock, faults = Server(), VirtualClock(100.0), list[str]()

    async def run() -> None:
        async with a_client(server.answer) as client:
            cluster = Following(client, ClusterCache(), clock, faults.append)
            assert cluster.obstacle().startswith("cold")
            async with cluster.running():
                await until(lambda: server.watches == 3, "all is watched")
                await check(server, cluster, clock)

    asyncio.run(run())
    return faults


def test_a_server_that_says_nothing_for_too_long_is_noticed_without_an_error() -> None:
    async def check(server: Server, cluster: Following, clock: VirtualClock) -> None:
        assert cluster.obstacle() == ""
        clock.seconds += 59
        assert cluster.obstacle() == ""
        clock.seconds += 2
        assert cluster.obstacle() == "stale: the API server was not heard for 61 s"
        await server.say(BOOKMARK, "pods")
        await asyncio.sleep(0.05)
        assert cluster.obstacle().startswith("stale")  # the others are as silent as before
        await server.say(BOOKMARK)
        await until(lambda: cluster.obstacle() == "", "it was heard again")
        # So a healthy server is heard often enough, also when nothing happens.
        assert {asked["timeoutSeconds"] for asked in server.asked} == {"20"}

    assert followed(check) == []


def test_what_cannot_be_taken_in_makes_the_view_unreliable_until_all_is_listed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "AGAIN_SECONDS", 0.5)

    async def check(server: Server, cluster: Following, clock: VirtualClock) -> None:
        lists = server.lists
        await server.say({"type": "ADDED", "object": {"metadata": {"resourceVersion": "2"}}}, "nodes")
        await until(lambda: cluster.obstacle().startswith("broken: /api/v1/nodes: KeyError"), "it is said")
        await until(lambda: cluster.obstacle() == "", "it is listed again")
        assert server.lists == lists + 1

    assert len(followed(check)) == 1


def test_addresses_are_those_of_nodes_that_are_there() -> None:
    async def check(server: Server, cluster: Following, clock: VirtualClock) -> None:
        node = a_node("node-b")
        kinds = [("Hostname", "node-b"), ("InternalIP", "10.0.0.7"), ("InternalIP", "fd00::7")]  # the first one counts
        node["status"]["addresses"] = [{"type": kind, "address": address} for kind, address in kinds]
        node["metadata"]["resourceVersion"] = "3"
        await server.say({"type": "ADDED", "object": node}, "nodes")
        await until(lambda: cluster.addresses == {"node-b": "10.0.0.7"}, "it has an address")
        await server.say({"type": "DELETED", "object": node}, "nodes")
        await until(lambda: cluster.addresses == {}, "it is gone")

    assert followed(check) == []
