"""Explanations of decisions on a real API server."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from functools import partial

import pytest
from typer.testing import CliRunner

from lab.labs import eventually
from pilotage.cli import app
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab
from pilotage.lab.nodes import add, remove
from pilotage.model.errors import InputError
from pilotage.scheduler.explaining import ANNOTATION, line, read_annotation
from pilotage.scheduler.run import Settings
from pilotage.scheduler.status_pages import serve_status
from scheduler.live import a_scheduler
from scheduler.test_live import add_ready, all_bound, for_test, live, make, own_nodes, pods_of


def told(*words: str) -> Json:
    done = CliRunner().invoke(app, ["explain", *words, "--json"])
    assert done.exit_code == 0, done.output
    answer: Json = json.loads(done.stdout)
    return answer


def test_a_decision_is_explained_on_the_pod_in_the_journal_and_afresh(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add_ready(client, own_nodes(namespace, 3))
        pod = partial(for_test, namespace, scheduler=namespace)
        async with a_scheduler(lab, f"{namespace}=most-allocated") as scheduler:
            await make(client, namespace, pod("full", cpu="7"))
            first = await eventually(lambda: all_bound(client, namespace, 1), "the first pod is bound")
            await make(client, namespace, pod("second", cpu="2"), pod("huge", cpu="9"))
            bound = await eventually(lambda: all_bound(client, namespace, 2), "the second pod is bound")
            (decision,) = (d for d in scheduler.journal if d.pod == f"{namespace}/second")
            pages = serve_status(0, scheduler.metrics.registry, scheduler.journal)
            try:
                url = f"http://127.0.0.1:{pages.server_port}/decisions?pod={namespace}/second"
                answer = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url).read()))
            finally:
                await asyncio.to_thread(pages.shutdown)
                pages.server_close()
        node = bound["second"]["spec"]["nodeName"]
        assert node != first["full"]["spec"]["nodeName"]
        assert (decision.result, decision.node, decision.candidates) == ("scheduled", node, 2)
        assert ("Insufficient cpu", 1) in decision.reasons
        assert answer["decisions"] == [json.loads(json.dumps(decision.as_dict()))]
        assert f"-> {node} [scheduled, most-allocated@1]: {node} has the highest total" in line(decision)

        written = read_annotation(bound["second"]["metadata"]["annotations"])
        assert written is not None
        assert written["node"] == node
        assert written["best"][0][0] == node
        assert len(written["best"]) == 2

        place = ("--namespace", namespace, "--kubeconfig", str(lab.kubeconfig), "--policy", "most-allocated")
        from_pod = await asyncio.to_thread(told, "second", *place)
        assert (from_pod["source"], from_pod["why"]) == ("annotation", decision.why)
        afresh = await asyncio.to_thread(told, "second", *place, "--now")
        assert (afresh["source"], afresh["node"]) == ("now", node)
        assert [one["node"] for one in afresh["candidates"]] == [name for name, _ in written["best"]]
        waiting = await asyncio.to_thread(told, "huge", *place)
        assert (waiting["node"], waiting["candidates"]) == (None, [])
        assert waiting["filtered"]["Insufficient cpu"] == 3
        await remove(client, [node.name for node in own_nodes(namespace, 3)])

    live(lab, test)


def test_no_annotation_where_none_is_wanted(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 1))
        async with a_scheduler(lab, "pilotage=best-fit", settings=Settings(explain="off")):
            await make(client, namespace, for_test(namespace, "plain"))
            await eventually(lambda: all_bound(client, namespace, 1), "the pod is bound")
        found = (await pods_of(client, namespace))["plain"]
        assert ANNOTATION not in (found["metadata"].get("annotations") or {})
        await remove(client, [node.name for node in own_nodes(namespace, 1)])

    live(lab, test)


def test_a_pod_that_is_not_there_is_named(lab: Lab) -> None:
    done = CliRunner().invoke(app, ["explain", "nobody", "--kubeconfig", str(lab.kubeconfig)])
    assert isinstance(done.exception, InputError)
    assert "there is no pod 'nobody' in namespace 'default'" in str(done.exception)


@pytest.mark.parametrize("text", ["", "[1]", "{", "x" * 100_000])
def test_an_annotation_of_somebody_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="annotation pilotage/decision"):
        read_annotation({ANNOTATION: text})
