"""The dashboard inside the service: the cluster it follows, and what it said of pods beside where they went."""

from __future__ import annotations

import asyncio

import aiohttp
import numpy as np
import orjson

from contract.commands import pilotage
from kube.objects import a_node, a_pod
from kube.servers import a_client, until
from pilotage.dashboard.serving import place_of
from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kube.client import Json
from pilotage.kube.podview import read_pod
from pilotage.model.clock import SystemClock
from pilotage.serving.run import Serving, Settings
from pilotage.serving.showing import Scored, ScoredPods
from serving.test_following import Server


def test_what_was_said_of_a_pod_is_told_when_it_is_bound() -> None:
    scored, pod = ScoredPods("fgd@1"), read_pod(a_pod("new"))
    scored.note(pod.uid, Scored("fgd@1", ["a", "b", "c", "d"], np.array([1.0, 5.0, INFEASIBLE, 3.0])))
    found = scored.advise(pod, "a")
    assert found is not None
    assert (found.node, found.rank, found.candidates) == ("b", 3, 3)
    assert found.best == (("b", 5.0), ("d", 3.0), ("a", 1.0))
    assert scored.advise(pod, "a") is None  # once


def test_one_of_several_best_nodes_is_what_was_said() -> None:
    scored, pod = ScoredPods("fgd@1"), read_pod(a_pod("new"))
    scored.note(pod.uid, Scored("fgd@1", ["a", "b", "c"], np.array([5.0, 5.0, 1.0])))
    found = scored.advise(pod, "b")
    assert found is not None
    assert (found.node, found.rank) == ("b", 1)


def test_the_page_shows_what_the_service_follows_and_has_said() -> None:
    server = Server()

    async def run() -> Json:
        async with a_client(server.answer) as client:
            place = place_of("127.0.0.1:0")
            settings = Settings(("least-allocated",), port=0, access=client.access, dashboard=place)
            async with Serving(settings, SystemClock()).running() as serving, aiohttp.ClientSession() as session:
                await until(lambda: server.watches == 3 and not serving.obstacles(), "it is ready")
                for node in (a_node("node-b", cpu="16"), a_node("node-c")):
                    node["metadata"]["resourceVersion"] = "2"
                    await server.say({"type": "ADDED", "object": node}, "nodes")
                pod = a_pod("new")
                pod["metadata"]["resourceVersion"] = "3"
                await server.say({"type": "ADDED", "object": pod}, "pods")
                cache = serving.own.scoring.cache if serving.own is not None else None
                assert cache is not None
                await until(lambda: len(cache.pods) == 1 and len(cache._nodes) == 3, "all is seen")
                asked = {"Pod": pod, "NodeNames": ["node-a", "node-b", "node-c"]}
                url = f"http://127.0.0.1:{serving.port}/extender/prioritize"
                async with session.post(url, json=asked) as answer:
                    assert answer.status == 200
                bound = a_pod("new", node="node-a")
                bound["metadata"]["resourceVersion"] = "4"
                await server.say({"type": "MODIFIED", "object": bound}, "pods")
                await until(lambda: cache.state.placement("uid-new") is not None, "it is bound")
                await asyncio.sleep(1.1)  # two looks of the page
                async with session.get(f"{serving.page}api/events") as events:
                    async for line in events.content:
                        if line.startswith(b"data: "):
                            return dict(orjson.loads(line[6:]))
        raise AssertionError("no message")

    found = asyncio.run(run())
    assert [row[0] for row in found["nodes"]["set"]] == ["node-a", "node-b", "node-c"]
    [decision] = found["decisions"]
    assert (decision[2], decision[6], decision[10]) == ("default/new", "node-a", "node-b")
    assert found["about"]["shadow"] == "least-allocated@1"


def test_without_a_cluster_there_is_nothing_to_show() -> None:
    done = pilotage("serve", "--dashboard", "127.0.0.1:0")
    assert (done.code, "no cluster to show" in done.err) == (2, True)
