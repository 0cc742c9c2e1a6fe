"""A real kube-scheduler while its extender is killed, paused, wrong or late: pods are placed, or wait for devices."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from lab.labs import eventually, pod
from pilotage.kube.client import Client, Json
from pilotage.lab.certificates import Authority, write_private
from pilotage.lab.controlplane import Lab
from pilotage.model.cluster import Node
from pilotage.serving.run import Settings
from pilotage.serving.security import Security
from serving.schedulers import a_kube_scheduler, a_serve_process, following, own_nodes, ready
from serving.services import a_service

PODS = int(os.environ.get("PILOTAGE_FAULT_PODS", "12"))  # for each fault; 1000 for the figures of docs/serve.md
SHARE = {"alibabacloud.com/gpu-milli": "100", "alibabacloud.com/gpu-count": "1"}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def garbage(request: web.Request) -> web.Response:
    return web.Response(body=b"\x00\xff{]", content_type="application/json")


async def late(request: web.Request) -> web.Response:
    await asyncio.sleep(1.0)
    return web.json_response([])


async def wrong_nodes(request: web.Request) -> web.Response:
    return web.json_response([{"Host": "of-another-cluster", "Score": 10}])


async def not_a_number(request: web.Request) -> web.Response:
    asked = await request.json()
    text = ",".join(f'{{"Host": "{name}", "Score": NaN}}' for name in asked["NodeNames"])
    return web.Response(text=f"[{text}]", content_type="application/json")


async def huge(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    with suppress(ConnectionError):  # the other side has had enough
        for _ in range(10_000):
            await answer.write(b'[{"Host": "x", "Score": 1},' * 4000)
    return answer


FAULTS: dict[str, Answer] = {
    "garbage": garbage,
    "late": late,
    "wrong nodes": wrong_nodes,
    "NaN": not_a_number,
    "huge": huge,
}


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[int]:
    """A server that has learned nothing of the extender's format; its port."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def machines(name: str, gpus: int = 0) -> list[Node]:
    return [Node(f"{name}-{n}", 64_000, 256 * 2**30, gpu_count=gpus, labels=(("test", name),)) for n in range(3)]


async def make(client: Client, namespace: str, names: list[str], scheduler: str, where: str, **more: object) -> None:
    for name in names:
        made = pod(name, scheduler=scheduler, cpu="100m", nodeSelector={"test": where}, **more)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", made)


async def all_placed(client: Client, namespace: str, count: int) -> list[Json]:
    async def ask() -> list[Json] | None:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        placed = [one for one in found if one["spec"].get("nodeName")]
        return placed if len(placed) == count else None

    return await eventually(ask, f"{count} pods are placed")


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_answers_stop_no_pod(lab: Lab, fault: str) -> None:
    where = f"wrong-{fault.replace(' ', '-').lower()}"

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace), answering(FAULTS[fault]) as port:
            with a_kube_scheduler(lab, "extender-score.yaml", f"http://127.0.0.1:{port}"):
                await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", where)
                await all_placed(client, namespace, PODS)

    asyncio.run(run())


def test_an_expired_certificate_stops_no_pod(lab: Lab, tmp_path: Path) -> None:
    authority = Authority("test", datetime.now(UTC) - timedelta(days=400))  # certificates are for a year
    expired = authority.issue("server")
    files = {"server.crt": expired.certificate, "server.key": expired.key, "ca.crt": authority.pem}
    paths = {name: write_private(tmp_path / name, data) for name, data in files.items()}
    security = Security(paths["server.crt"], paths["server.key"])
    settings = Settings(policies=("least-allocated",), port=0, access=following(lab).access, security=security)

    async def run() -> None:
        async with own_nodes(lab, machines("expired")) as (client, namespace):
            with (
                a_service(settings) as serving,
                a_kube_scheduler(lab, "extender-score.yaml", f"https://127.0.0.1:{serving.port}"),
            ):
                await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", "expired")
                await all_placed(client, namespace, PODS)

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_a_service_that_does_not_answer_stops_no_pod(lab: Lab, number: signal.Signals) -> None:
    where = f"silent-{number.name.lower()}"

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace):
            with a_serve_process(lab, "--policy", "least-allocated", "--port", "0") as (process, port):
                await ready(port)
                with a_kube_scheduler(lab, "extender-score.yaml", f"http://127.0.0.1:{port}"):
                    await make(client, namespace, ["before"], "pilotage-score", where)
                    await all_placed(client, namespace, 1)
                    process.send_signal(number)
                    await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", where)
                    await all_placed(client, namespace, 1 + PODS)

    asyncio.run(run())


def test_gpu_pods_wait_for_the_service_and_none_is_without_its_device(lab: Lab) -> None:
    async def run() -> None:
        async with own_nodes(lab, machines("gpu-faults", gpus=4)) as (client, namespace):
            with a_serve_process(lab, "--policy", "best-fit", "--port", "0") as (process, port):
                await ready(port)
                with a_kube_scheduler(lab, "extender-gpu.yaml", f"http://127.0.0.1:{port}"):
                    names = [f"pod-{i}" for i in range(PODS)]
                    process.send_signal(signal.SIGSTOP)
                    await make(client, namespace, names, "pilotage-gpu", "gpu-faults", annotations=SHARE)
                    await refused(client, namespace)
                    found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
                    assert not [one for one in found if one["spec"].get("nodeName")]
                    process.send_signal(signal.SIGCONT)
                    placed = await all_placed(client, namespace, PODS)  # by kube-scheduler's own retries
        assert all(one["metadata"]["annotations"].get("alibabacloud.com/gpu-index") for one in placed)

    asyncio.run(run())


async def refused(client: Client, namespace: str) -> None:
    """Waits until kube-scheduler has tried a pod and said why it waits."""

    async def ask() -> bool | None:
        found, _ = await client.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return True if any(event["reason"] == "FailedScheduling" for event in found) else None

    await eventually(ask, "kube-scheduler has tried and failed")
