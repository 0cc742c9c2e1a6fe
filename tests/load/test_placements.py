"""Traffic measured by a real Prometheus decides where a real kube-scheduler puts pods; without it they are put too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.labs import eventually, pod
from load.prometheus import Traffic, a_prometheus, an_exporter
from pilotage.kernels.features import LOAD_AGE, LOAD_RECEIVE
from pilotage.lab.controlplane import Lab
from pilotage.load.settings import LoadSettings
from pilotage.model.cluster import Node
from pilotage.serving.run import Serving
from serving.schedulers import a_kube_scheduler, bound, following, own_nodes
from serving.services import a_service, read

NODES = ("load-0", "load-1", "load-2")
BUSY, QUIET = 5e7, 1e6
LINK = 1e8


def machines() -> list[Node]:
    return [Node(name, 64_000, 256 * 2**30, labels=(("test", "load"),)) for name in NODES]


def measured(serving: Serving, node: str) -> float:
    """As policies see it: samples change while a round goes on, columns at its end."""
    assert serving.own is not None
    cache = serving.own.scoring.cache
    n = cache.state.index.get(node)
    return -1.0 if n is None or cache.node_NF[n, LOAD_AGE] < 0 else float(cache.node_NF[n, LOAD_RECEIVE])


@pytest.mark.parametrize("policy", ["least-network", "learned"])
def test_traffic_moves_placements_and_its_absence_stops_none(
    lab: Lab, tmp_path: Path, policy: str, request: pytest.FixtureRequest
) -> None:
    """By a rule, and by a policy that has learned in Load-v1."""
    asked = str(request.getfixturevalue("trained")) if policy == "learned" else policy
    traffic = Traffic({"load-0": BUSY, "load-1": QUIET, "load-2": BUSY})

    async def run() -> None:
        async with own_nodes(lab, machines()) as (client, namespace):
            with (
                an_exporter(traffic) as exporter,
                a_prometheus(tmp_path / "prometheus", exporter) as (process, address),
            ):
                # The machine may be busy: scrapes and rounds are late then, and must count all the same.
                load = LoadSettings(
                    address, interval_seconds=0.5, stale_seconds=20.0, range_seconds=15.0, link_bytes_per_second=LINK
                )
                with (
                    a_service(following(lab, asked, load=load)) as serving,
                    a_kube_scheduler(lab, "extender-gpu.yaml", f"http://127.0.0.1:{serving.port}"),
                ):

                    async def place(name: str) -> str:
                        spec = pod(name, scheduler="pilotage-gpu", nodeSelector={"test": "load"})
                        await client.create(f"/api/v1/namespaces/{namespace}/pods", spec)
                        return str((await bound(client, namespace, name))["spec"]["nodeName"])

                    async def least(node: str) -> None:
                        async def is_so() -> bool | None:
                            others = [measured(serving, name) for name in NODES if name != node]
                            return True if 0 <= measured(serving, node) < min(others) / 2 else None

                        await eventually(is_so, f"{node} is measured as the quietest")

                    await least("load-1")
                    assert [await place(f"first-{i}") for i in range(3)] == ["load-1"] * 3
                    traffic.set(load_1=BUSY, load_2=QUIET)
                    await least("load-2")
                    assert [await place(f"moved-{i}") for i in range(3)] == ["load-2"] * 3

                    process.kill()

                    async def stale() -> bool | None:
                        status, body = await asyncio.to_thread(read, serving, "/readyz")
                        return True if status == 200 and b'"fresh":false' in body else None

                    await eventually(stale, "the readiness detail says that measurements are stale")
                    _, figures = await asyncio.to_thread(read, serving, "/metrics")
                    assert b"pilotage_load_stale 1.0" in figures
                    assert all([await place(f"without-{i}") in NODES for i in range(3)])

    asyncio.run(run())
