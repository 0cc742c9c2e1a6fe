"""Waiting for nodes: what is seen of them is asked for until it is so."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kube.objects import a_node
from kube.servers import a_client
from pilotage.kube.client import Client, Json
from pilotage.lab import nodes
from pilotage.lab.faults.inject import stop_kwok
from pilotage.lab.nodes import until_none_is_ready
from pilotage.model.clock import Clock, SystemClock
from pilotage.model.errors import InputError


class Cluster:
    """Two nodes, of which one more is found dead with every look while kwok is gone."""

    def __init__(self, *, watched: bool = True) -> None:
        self.ready, self.watched, self.looks = 2, watched, 0

    async def answer(self, request: web.Request) -> web.Response:
        found = [self._node(number) for number in range(2)]
        self.looks += 1
        self.ready -= bool(self.watched and self.ready)
        return web.json_response({"items": found, "metadata": {"resourceVersion": "1"}})

    def _node(self, number: int) -> Json:
        node = a_node(f"n{number}")
        node["status"]["conditions"] = [{"type": "Ready", "status": "True" if number < self.ready else "Unknown"}]
        return node


class Kwok:
    """Starts again, and its nodes are ready."""

    alive = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.processes = cluster, {"kwok": self}
        self.ready_before: list[int] = []

    def signal(self, number: int) -> None:
        self.alive = False

    def started(self, component: str) -> Kwok:
        self.ready_before.append(self.cluster.ready)
        self.cluster.ready, self.cluster.watched = 2, False
        return self


class Scene:
    """As much of one as the fault needs."""

    away_seconds = 0.0

    def __init__(self, client: Client, lab: Kwok) -> None:
        self.client, self.lab, self.clock = client, lab, SystemClock()


def test_kwok_is_gone_until_its_nodes_are_found_dead() -> None:
    """It came back before anybody could notice, and the fault had no effect."""

    async def run() -> list[int]:
        cluster = Cluster()
        async with a_client(cluster.answer) as client:
            kwok = Kwok(cluster)
            await stop_kwok(Scene(client, kwok))  # type: ignore[arg-type]
        return kwok.ready_before

    assert asyncio.run(run()) == [0]


def test_nodes_that_nobody_finds_dead_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "READY_SECONDS", 0.1)
    clock: Clock = SystemClock()

    async def run() -> None:
        async with a_client(Cluster(watched=False).answer) as client:
            await until_none_is_ready(client, clock)

    with pytest.raises(InputError, match=r"2 nodes are ready after .* kube-controller-manager to run"):
        asyncio.run(run())
