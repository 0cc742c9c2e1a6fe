"""The live table: what it counts, how it reads as text, and what its keys do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

from textual.widgets import Input, Static

from contract.commands import installed_pilotage
from kube.objects import a_pod
from lab.labs import eventually, make_namespace, pod
from pilotage.kube.cache import ClusterCache
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.overview import Decision, NodeRow, Observer, Overview, Use, overview_of
from pilotage.lab.overview_table import chosen, colour, plain
from pilotage.lab.top import Top
from pilotage.model.clock import VirtualClock
from pilotage.model.cluster import Node
from pilotage.model.constraints import Taint

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def row(name: str, cpu: float, gpu: float = 0.0, gpus: int = 0, **more: str) -> NodeRow:
    memory, pods = Use(cpu * 2, 256), Use(cpu, 110)
    state, model = more.get("state", "ready"), more.get("model", "")
    return NodeRow(name, state, model, Use(cpu, 64), memory, Use(gpu, gpus), pods)  # type: ignore[arg-type]


OVERVIEW = Overview(
    nodes=(row("node-2", 64), row("node-10", 8, state="cordoned"), row("gpu-1", 40.5, 1.5, 2, model="V100M32")),
    cpu_variance=0.1234,
    pending={"default-scheduler": 2, "pilotage": 1},
    decisions=(
        Decision(MOMENT, "pilotage", "load/b", "", "0/3 nodes are available: 3 Insufficient cpu"),
        Decision(MOMENT, "pilotage", "load/a", "gpu-1", "gpu 0"),
    ),
)


def test_as_text() -> None:
    text = plain(OVERVIEW, chosen(OVERVIEW, "", "CPU", reverse=True))
    lines = [line.split() for line in text.splitlines()]
    assert [" ".join(words) for words in lines] == [
        "nodes 3, ready 2 CPU 112.5/192 59% memory GiB 225/768 29% GPU 1.5/2 75% pods 112.5/330 34%",
        "balance: variance of CPU shares 0.1234 pending 3 (default-scheduler 2, pilotage 1)",
        "",
        "node state CPU memory GiB GPU pods model",
        "node-2 ready 64/64 100% 128/256 50% - 64/110 58% -",
        "gpu-1 ready 40.5/64 63% 81/256 32% 1.5/2 75% 40.5/110 37% V100M32",
        "node-10 cordoned 8/64 12% 16/256 6% - 8/110 7% -",
        "",
        "last decisions:",
        "03:04:05 pilotage load/b waits: 0/3 nodes are available: 3 Insufficient cpu",
        "03:04:05 pilotage load/a -> gpu-1 gpu 0",
    ]
    starts = {line.index("ready") for line in text.splitlines()[4:6]}
    assert len(starts) == 1  # columns stand below each other


def test_names_are_in_natural_order_and_filters_look_at_models_and_states() -> None:
    def names(text: str, column: str = "node", *, reverse: bool = False) -> list[str]:
        return [found.name for found in chosen(OVERVIEW, text, column, reverse=reverse)]

    assert names("") == ["gpu-1", "node-2", "node-10"]
    assert names("v100") == ["gpu-1"]
    assert names("CORD") == ["node-10"]
    assert names("", "GPU", reverse=True)[0] == "gpu-1"
    assert names("nothing") == []


def test_colours_tell_how_full() -> None:
    assert [colour(Use(used, 10)) for used in (0, 1, 6, 9, 10.5)] == [
        "dim",
        "green",
        "yellow",
        "red",
        "bold white on red",
    ]


def served(name: str, version: int, node: str = "", message: str = "") -> Json:
    found = a_pod(name, annotations={})
    found["metadata"] |= {"uid": name, "resourceVersion": str(version)}
    found["spec"] |= {"schedulerName": "pilotage", **({"nodeName": node} if node else {})}
    if message:
        found["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}
    return found


def test_what_is_counted_and_which_decisions_are_told() -> None:
    cache = ClusterCache()
    taint = Taint("node.kubernetes.io/not-ready")
    nodes = [Node("a", 4_000, 2**33, gpu_count=2, gpu_model="X"), Node("b", 4_000, 2**33, taints=(taint,))]
    cache.set_nodes(nodes)
    observer = Observer(cache, VirtualClock())
    observer.changed(served("p", 1))
    observer.changed(served("q", 2))
    assert overview_of(cache).pending == {"pilotage": 2}
    observer.changed(served("p", 3, node="a"))
    observer.changed(served("p", 4, node="a"))  # as when a kubelet reports: no second decision
    observer.changed(served("q", 5, message="0/2 nodes are available"))
    found = overview_of(cache, observer.decisions)
    assert [(one.pod.partition("/")[2], one.node, one.note) for one in found.decisions] == [
        ("q", "", "0/2 nodes are available"),
        ("p", "a", ""),
    ]
    assert [(one.name, one.state, one.pods.used) for one in found.nodes] == [("a", "ready", 1), ("b", "not ready", 0)]
    assert found.pending == {"pilotage": 1}
    assert found.nodes[0].gpu == Use(0, 2)


def shown(app: Top) -> list[str]:
    return [str(key.value) for key in app.nodes.rows]


def test_keys_sort_filter_and_pause() -> None:
    async def run() -> None:
        overview = OVERVIEW
        app = Top(lambda: overview, seconds=3600)
        async with app.run_test(size=(120, 30)) as pilot:
            assert shown(app) == ["gpu-1", "node-2", "node-10"]
            await pilot.press("s", "s")
            assert app.sorted_by == "CPU"
            assert shown(app) == ["node-2", "gpu-1", "node-10"]
            await pilot.press("r")
            assert shown(app) == ["node-10", "gpu-1", "node-2"]
            await pilot.press("slash", *"gpu", "enter")
            assert shown(app) == ["gpu-1"]
            assert "1 of 3 nodes shown" in str(app.query_one("#summary", Static).content)
            await pilot.press("escape")
            assert len(shown(app)) == 3
            assert app.query_one("#filter", Input).value == ""
            assert "load/a -> gpu-1 gpu 0" in str(app.query_one("#decisions", Static).content)
            await pilot.press("d")
            assert not app.query_one("#decisions", Static).display
            await pilot.press("space")
            overview = replace(OVERVIEW, nodes=OVERVIEW.nodes[:1])
            app.show_now()
            assert len(shown(app)) == 3
            await pilot.press("space")
            assert shown(app) == ["node-2"]

    asyncio.run(run())


def test_only_cells_that_changed_are_written() -> None:
    async def run() -> None:
        overview = OVERVIEW
        app = Top(lambda: overview, seconds=3600, sort="GPU", text="gpu")
        async with app.run_test(size=(120, 30)):
            assert shown(app) == ["gpu-1"]
            assert str(app.nodes.get_cell("gpu-1", "GPU")) == "1.5/2   75%"
            overview = replace(OVERVIEW, nodes=(row("gpu-1", 40.5, 2, 2, model="V100M32"),))
            app.show_now()
            assert str(app.nodes.get_cell("gpu-1", "GPU")) == "2/2  100%"
            assert app.nodes.get_cell("gpu-1", "GPU").style == "red"

    asyncio.run(run())


def test_on_a_lab_as_text_and_json(lab: Lab) -> None:
    async def place(client: Client) -> str:
        namespace = await make_namespace(client)
        path = f"/api/v1/namespaces/{namespace}/pods"
        await client.create(path, pod("seen", cpu="3"))
        await client.create(path, pod("waits", scheduler="nobody-at-all"))

        async def bound() -> str | None:
            found: str | None = (await client.get(f"{path}/seen"))["spec"].get("nodeName")
            return found

        return await eventually(bound, "the pod is bound")

    node = in_lab(lab, place)
    found = json.loads(installed_pilotage("lab", "top", "--name", lab.name, "--json").out)
    assert found["pending"]["nobody-at-all"] == 1
    used = {entry["name"]: entry["cpu"]["used"] for entry in found["nodes"]}
    assert used[node] >= 3
    text = installed_pilotage("lab", "top", "--name", lab.name, "--filter", node, "--sort", "CPU").out
    assert "balance: variance of CPU shares" in text
    assert node in text
