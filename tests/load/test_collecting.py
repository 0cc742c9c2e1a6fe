"""Reading Prometheus: how often it is asked, how nodes are called, and that nothing ends it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from kube.servers import a_client, until
from pilotage.kernels.features import LOAD_CPU, NODE_FEATURES
from pilotage.kube.cache import ClusterCache
from pilotage.load.collecting import Collector
from pilotage.load.columns import LoadColumns
from pilotage.load.settings import LoadSettings
from pilotage.model.clock import SystemClock, VirtualClock
from pilotage.model.cluster import Node


def an_answer(values: dict[str, float], label: str = "node") -> web.Response:
    series = [{"metric": {label: name}, "value": [0, str(value)]} for name, value in values.items()]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": series}})


def test_a_round_that_fails_in_an_unforeseen_way_is_said_and_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return an_answer({"a": 0.5})

    async def run() -> None:
        async with a_client(answer) as client:
            settings = LoadSettings(client.access.server, {"cpu": "up"}, interval_seconds=0.1)
            collector = Collector(LoadColumns(settings, SystemClock()), SystemClock(), CollectorRegistry())
            take = collector.columns.take

            def fail(*given: object) -> None:
                raise RuntimeError("not foreseen")

            monkeypatch.setattr(collector.columns, "take", fail)
            async with collector.running():
                await until(lambda: bool(collector.problems), "it is said")
                assert collector.problems == {"round": "RuntimeError: not foreseen"}
                monkeypatch.setattr(collector.columns, "take", take)
                await until(lambda: collector.columns.fresh_nodes() == 1, "it goes on")

    asyncio.run(run())


@pytest.mark.parametrize("nodes", [3, 3000])
def test_queries_are_as_many_whatever_the_number_of_nodes_and_pods(nodes: int) -> None:
    """Pods do not ask at all: they read columns."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["query"]))
        return an_answer({f"node-{n}": n / nodes for n in range(nodes)})

    async def run() -> None:
        async with a_client(answer) as client:
            settings = LoadSettings(client.access.server, interval_seconds=3600.0)
            rounds: list[None] = []
            collector = Collector(
                LoadColumns(settings, SystemClock()), SystemClock(), CollectorRegistry(), lambda: rounds.append(None)
            )
            async with collector.running():
                await until(lambda: bool(rounds), "a round is over")
                table = [Node(f"node-{n}", 4000, 2**33) for n in range(nodes)]
                node_NF = np.zeros((nodes, len(NODE_FEATURES)))
                for _ in range(50):  # decisions about pods
                    collector.columns.fill(table, node_NF)
            assert sorted(asked) == sorted(settings.query(measure) for measure in settings.queries)

    asyncio.run(run())


@pytest.mark.parametrize("hanging", [("cpu", "memory"), ("memory",)])
def test_what_goes_stale_while_prometheus_hangs_goes_neutral_at_once(hanging: tuple[str, ...]) -> None:
    """Queries wait for their time limits one after another: policies saw old values until the last was over."""
    hangs, waiting = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if hangs.is_set() and (await request.post())["query"] in hanging:
            waiting.set()
            await asyncio.sleep(60)
        return an_answer({"a": 0.5, "b": 0.25})

    async def run() -> None:
        async with a_client(answer) as client:
            clock, cache = VirtualClock(), ClusterCache()
            queries = {measure: measure for measure in ("cpu", "memory")}
            settings = LoadSettings(client.access.server, queries, interval_seconds=10.0, timeout_seconds=60.0)
            columns = LoadColumns(settings, clock)
            cache.measured = columns.fill
            cache.set_nodes([Node(name, 4000, 2**33) for name in "ab"])
            collector = Collector(columns, clock, CollectorRegistry(), cache.measure)

            def seen(measure: str) -> list[float]:
                return list(cache.node_NF[:, NODE_FEATURES.index(f"load_{measure}")])

            async with collector.running():
                await until(lambda: seen("cpu") == seen("memory") == [0.5, 0.25], "policies see measurements")
                hangs.set()
                clock.seconds += settings.interval_seconds
                await until(waiting.is_set, "the next round waits for an answer")
                clock.seconds += settings.stale_seconds
                await until(lambda: seen("memory") == [0.0, 0.0], "what is stale is neutral while the round goes on")
                assert not collector.problems

    asyncio.run(run())


def test_an_address_names_the_node_of_the_cluster_that_says_so() -> None:
    found = LoadColumns(LoadSettings("http://127.0.0.1:9"), VirtualClock())
    found.take("cpu", {"10.0.0.7": 0.75, "b": 0.25}, age=0.0)
    nodes, ours, theirs = [Node(name, 4000, 2**33) for name in "ab"], np.zeros((2, 99)), np.zeros((2, 99))
    found.fill(nodes, ours, {"a": "10.0.0.7", "b": "10.0.0.7"})
    found.fill(nodes, theirs, {})
    assert ours[:, LOAD_CPU].tolist() == [0.75, 0.25]  # its name goes before its address
    assert theirs[:, LOAD_CPU].tolist() == [0.25, 0.25]  # another caller's addresses are its own
