"""A learned policy of the kind trained on Load-v1 sees what is measured, and its choice is what the service answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from kube.servers import a_client
from lab.labs import eventually, pod
from load.test_collecting import an_answer
from pilotage.kernels.features import LOAD_CPU
from pilotage.kube.client import Json
from pilotage.lab.controlplane import Lab
from pilotage.load.settings import LoadSettings
from pilotage.model.cluster import Node
from pilotage.policies.checkpoints import write_checkpoint
from pilotage.serving.run import Settings
from reference.random_weights import MLP, random_checkpoint
from serving.schedulers import a_kube_scheduler, bound, following, own_nodes
from serving.services import a_question, a_service, a_state, ask


def test_measured_load_decides_between_nodes_that_are_equal_otherwise(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "learned", random_checkpoint(MLP))
    # Nobody answers there: the measurements are those of the test.
    load = LoadSettings("http://127.0.0.1:9", {"cpu": "up"}, interval_seconds=3600, stale_seconds=3600)
    asked = a_question([{"name": name, "state": a_state()} for name in ("a", "b")])
    with a_service(Settings(policies=(str(tmp_path / "learned"),), port=0, load=load)) as serving:
        assert serving.columns is not None
        answers = []
        for loads in ({"a": 0.1, "b": 0.9}, {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}):
            serving.columns.take("cpu", loads, age=0.0)
            answers.append(ask(serving, "/v1/score", asked)[1]["scores"])
    assert sorted(answers[0].values()) == [0, 100]
    assert answers[1] == {"a": answers[0]["b"], "b": answers[0]["a"]}
    assert answers[2] == {"a": 0, "b": 0}  # nothing to tell them apart


NAMES = ("learned-0", "learned-1")


def test_its_choice_is_where_kube_scheduler_puts_the_pod(lab: Lab, tmp_path: Path) -> None:
    """Two nodes that differ in their load alone: when the loads change places, so do the pods."""
    write_checkpoint(tmp_path / "learned", random_checkpoint(MLP))
    loads = dict(zip(NAMES, (0.1, 0.9), strict=True))
    machines = [Node(name, 64_000, 256 * 2**30, labels=(("test", "learned"),)) for name in NAMES]

    async def answer(request: web.Request) -> web.Response:
        return an_answer(loads)

    async def run() -> list[str]:
        placed = []
        async with own_nodes(lab, machines) as (client, namespace), a_client(answer) as prometheus:
            load = LoadSettings(prometheus.access.server, {"cpu": "any"}, interval_seconds=0.2)
            with (
                a_service(following(lab, str(tmp_path / "learned"), load=load)) as serving,
                a_kube_scheduler(lab, "extender-gpu.yaml", f"http://127.0.0.1:{serving.port}"),
            ):
                assert serving.own is not None
                cache = serving.own.scoring.cache

                async def seen() -> bool | None:
                    index = cache.state.index
                    found = {name: float(cache.node_NF[index[name], LOAD_CPU]) for name in NAMES if name in index}
                    return True if found == loads and not cache.pods.keys() & gone else None

                gone: set[str] = set()
                for number in range(2):
                    await eventually(seen, "the service has the loads, and nothing else differs")
                    made = pod(f"pod-{number}", scheduler="pilotage-gpu", nodeSelector={"test": "learned"})
                    path = f"/api/v1/namespaces/{namespace}/pods"
                    await client.create(path, made)
                    found: Json = await bound(client, namespace, f"pod-{number}")
                    placed.append(str(found["spec"]["nodeName"]))
                    await client.delete(f"{path}/pod-{number}", {"gracePeriodSeconds": 0})
                    gone.add(found["metadata"]["uid"])
                    loads[NAMES[0]], loads[NAMES[1]] = loads[NAMES[1]], loads[NAMES[0]]
        return placed

    assert sorted(asyncio.run(run())) == sorted(NAMES)
