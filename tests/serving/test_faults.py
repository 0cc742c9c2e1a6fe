"""A real kube-scheduler while its extender is killed, paused, wrong or late: pods are placed, or wait for devices."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from lab.labs import eventually, pod
from pilotage.kube.client import Client, Json
from pilotage.lab.certificates import Authority, write_private
from pilotage.lab.controlplane import Lab
from pilotage.lab.ports import free_ports
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.serving.run import Settings
from pilotage.serving.security import Security
from serving.schedulers import a_kube_scheduler, a_serve_process, fallbacks, following, own_nodes, ready
from serving.services import a_service

SCORES, SHARES = "extender-score.yaml", "extender-gpu.yaml"
RECOVERY_SECONDS = 10.0
BUSY = {"deadline"}  # 200 ms are short on a machine that has much else to do
PODS = int(os.environ.get("PILOTAGE_FAULT_PODS", "12"))  # for each fault; 1000 for the figures of docs/serve.md
SHARE = {"alibabacloud.com/gpu-milli": "100", "alibabacloud.com/gpu-count": "1"}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def garbage(request: web.Request) -> web.Response:
    return web.Response(body=b"\x00\xff{]", content_type="application/json")


async def late(request: web.Request) -> web.Response:
    await asyncio.sleep(1.0 if request.path.endswith("prioritize") else 7.0)  # the time-outs are 200 ms and 5 s
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


FAULTS: dict[str, tuple[Answer, set[str]]] = {  # and how its pods are counted; of the last, nobody can tell
    "garbage": (garbage, {"malformed"}),
    "late": (late, {"deadline"}),
    "NaN": (not_a_number, {"malformed"}),
    "huge": (huge, {"malformed", "deadline"}),
    "wrong nodes": (wrong_nodes, set()),
}


@asynccontextmanager
async def answering(answer: Answer, port: int) -> AsyncIterator[None]:
    """A server that has learned nothing of the extender's format."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


def machines(name: str, gpus: int = 0) -> list[Node]:
    return [Node(f"{name}-{n}", 64_000, 256 * 2**30, gpu_count=gpus, labels=(("test", name),)) for n in range(3)]


async def make(client: Client, namespace: str, names: list[str], scheduler: str, where: str, **more: object) -> None:
    for name in names:
        made = pod(name, scheduler=scheduler, cpu="10m", nodeSelector={"test": where}, **more)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", made)


async def all_placed(client: Client, namespace: str, count: int, *, never_refused: bool = True) -> list[Json]:
    async def ask() -> list[Json] | None:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        if never_refused:
            assert not [one["metadata"]["name"] for one in found if is_refused(one)]
        placed = [one for one in found if one["spec"].get("nodeName")]
        return placed if len(placed) == count else None

    return await eventually(ask, f"{count} pods are placed")


def is_refused(found: Json) -> bool:
    """Whether it was called unschedulable."""
    said = found["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in said)


async def answered(port: int) -> float:
    """Questions of prioritize that the service has answered."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        text = await answer.text()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "pilotage_serve_requests_total" and sample.labels == {"verb": "prioritize", "reason": "ok"}
    )


async def recovered(client: Client, namespace: str, port: int, where: str) -> None:
    """The service is back: pods are scored again within the promised time."""
    clock, before = SystemClock(), await answered(port)
    began = clock.now()
    while await answered(port) == before:
        assert clock.now() - began < RECOVERY_SECONDS
        there = len((await client.list_all(f"/api/v1/namespaces/{namespace}/pods"))[0])
        await make(client, namespace, [f"again-{there}"], "pilotage-score", where)
        await all_placed(client, namespace, there + 1)


@contextmanager
def at(lab: Lab, port: int, policy: str) -> Iterator[None]:
    with a_service(replace(following(lab, policy), port=port)):
        yield


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_answers_stop_no_pod(lab: Lab, fault: str) -> None:
    where, (answer, reasons) = f"wrong-{fault.replace(' ', '-').lower()}", FAULTS[fault]
    (port,) = free_ports(1, lab.ports.values())

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace):
            with a_kube_scheduler(lab, SCORES, f"http://127.0.0.1:{port}"):
                async with answering(answer, port):
                    await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", where)
                    await all_placed(client, namespace, PODS)
                counted = fallbacks(lab, SCORES)
                assert counted.total() == (PODS if reasons else counted["deadline"])  # each once
                assert set(counted) <= reasons | BUSY
                assert not reasons or any(counted[reason] for reason in reasons)
                with at(lab, port, "least-allocated"):
                    await ready(port)
                    await recovered(client, namespace, port, where)

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
                a_kube_scheduler(lab, SCORES, f"https://127.0.0.1:{serving.port}"),
            ):
                await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", "expired")
                await all_placed(client, namespace, PODS)
                counted = fallbacks(lab, SCORES)
                assert (counted.total(), set(counted) <= {"tls"} | BUSY, counted["tls"] > 0) == (PODS, True, True)

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_a_service_that_does_not_answer_stops_no_pod(lab: Lab, number: signal.Signals) -> None:
    where = f"silent-{number.name.lower()}"
    (port,) = free_ports(1, lab.ports.values())
    options = ("--policy", "least-allocated", "--port", str(port))

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace):
            with a_kube_scheduler(lab, SCORES, f"http://127.0.0.1:{port}"):
                with a_serve_process(lab, *options) as (process, _):
                    await ready(port)
                    await recovered(client, namespace, port, where)
                    scored = len((await client.list_all(f"/api/v1/namespaces/{namespace}/pods"))[0])
                    before = fallbacks(lab, SCORES)
                    process.send_signal(number)
                    await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", where)
                    await all_placed(client, namespace, scored + PODS)
                    counted = fallbacks(lab, SCORES) - before
                    assert counted.total() == PODS
                    assert set(counted) <= {"unreachable" if number == signal.SIGKILL else "deadline"} | BUSY
                    process.send_signal(signal.SIGCONT)
                    if number == signal.SIGSTOP:
                        await ready(port)
                        await recovered(client, namespace, port, where)
                if number == signal.SIGKILL:
                    with a_serve_process(lab, *options):
                        await ready(port)
                        await recovered(client, namespace, port, where)

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["killed", "paused", "garbage", "late"])
def test_gpu_pods_wait_for_the_service_and_none_is_without_its_device(lab: Lab, fault: str) -> None:
    where = f"gpu-{fault}"
    (port,) = free_ports(1, lab.ports.values())

    @asynccontextmanager
    async def faulty() -> AsyncIterator[None]:
        if fault in ("killed", "paused"):
            with a_serve_process(lab, "--policy", "best-fit", "--port", str(port)) as (process, _):
                await ready(port)
                process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
                yield
        else:
            async with answering(FAULTS[fault][0], port):
                yield

    async def run() -> list[Json]:
        async with own_nodes(lab, machines(where, gpus=4)) as (client, namespace):
            with a_kube_scheduler(lab, SHARES, f"http://127.0.0.1:{port}"):
                async with faulty():
                    names = [f"pod-{i}" for i in range(PODS)]
                    await make(client, namespace, names, "pilotage-gpu", where, annotations=SHARE)
                    await tried(client, namespace)
                    found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
                    assert not [one for one in found if one["spec"].get("nodeName")]
                with at(lab, port, "best-fit"):  # and kube-scheduler tries again by itself
                    return await all_placed(client, namespace, PODS, never_refused=False)

    placed = asyncio.run(run())
    assert all(one["metadata"]["annotations"].get("alibabacloud.com/gpu-index") for one in placed)


async def tried(client: Client, namespace: str) -> None:
    """Waits until kube-scheduler has tried a pod and said why it waits."""

    async def ask() -> bool | None:
        found, _ = await client.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return True if any(event["reason"] == "FailedScheduling" for event in found) else None

    await eventually(ask, "kube-scheduler has tried and failed")
