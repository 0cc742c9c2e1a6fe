"""A real kube-scheduler while its extender is killed, paused, wrong or late: pods are placed, or wait for devices."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from lab.fault_table import RECOVERY_SECONDS, Row, fault_pods, note, reasons
from lab.labs import DEADLINE, all_bound, eventually, pod, refused_pods
from pilotage.kube.client import Client, Json
from pilotage.lab.certificates import Authority, write_private
from pilotage.lab.controlplane import Lab
from pilotage.lab.ports import free_ports
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.serving.run import Serving
from pilotage.serving.security import Security
from serving.schedulers import a_kube_scheduler, a_serve_process, fallbacks, following, log_of, own_nodes, ready
from serving.services import a_service

SCORES, SHARES = "extender-score.yaml", "extender-gpu.yaml"
BUSY = {"deadline"}  # 200 ms are short on a machine that has much else to do
PODS = fault_pods(12)
PLACED_SECONDS = max(DEADLINE, PODS)  # a paused extender costs 200 ms for every pod
PAUSE = max(0.05, PODS / 1000)  # looking at many pods costs the API server what it needs for them
INDEX = "alibabacloud.com/gpu-index"
LONGEST_PAUSE = 10.0  # seconds between two tries of kube-scheduler with one pod
SHARE = {"alibabacloud.com/gpu-milli": "100", "alibabacloud.com/gpu-count": "1"}
MACHINES = 3
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answered = Callable[[], Awaitable[float]]  # questions of prioritize that the service has answered


async def garbage(request: web.Request) -> web.Response:
    return web.Response(body=b"\x00\xff{]", content_type="application/json")


async def late(request: web.Request) -> web.Response:
    await asyncio.sleep(1.0 if request.path.endswith("prioritize") else 7.0)  # the time-outs are 200 ms and 5 s
    return web.json_response([])


async def wrong_nodes(request: web.Request) -> web.Response:
    if request.path.endswith("filter"):
        return web.json_response({"NodeNames": ["of-another-cluster"], "FailedNodes": {}})
    return web.json_response([{"Host": "of-another-cluster", "Score": 10}])


async def not_a_number(request: web.Request) -> web.Response:
    asked = await request.json()
    text = ",".join(f'{{"Host": "{name}", "Score": NaN}}' for name in asked["NodeNames"])
    return web.Response(text=f"[{text}]", content_type="application/json")


async def huge(request: web.Request) -> web.StreamResponse:
    """64 MiB that never become an answer; kube-scheduler keeps what it has read until it is through."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    part = b'[{"Host": "x", "Score": 1},' * 4000
    with suppress(ConnectionError):  # the other side has had enough
        for _ in range(2**26 // len(part)):
            await answer.write(part)
    return answer


FAULTS: dict[str, tuple[Answer, set[str]]] = {  # and how its pods are counted; of the last, nobody can tell
    "garbage": (garbage, {"malformed"}),
    "late": (late, {"deadline"}),
    "not-a-number": (not_a_number, {"malformed"}),
    "huge": (huge, {"malformed", "deadline"}),
    "wrong-nodes": (wrong_nodes, set()),
}


@asynccontextmanager
async def answering(answer: Answer, port: int) -> AsyncIterator[None]:
    """A server that has learned nothing of the extender's format."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield
    finally:
        await site.stop()
        for _ in range(5):  # connections that were accepted just before are made a little later
            await asyncio.sleep(0)
        assert runner.server is not None
        made = [handler.transport for handler in runner.server.connections]
        await runner.cleanup()
        for transport in made:
            if transport is not None:  # what was still to be sent is not waited for
                transport.abort()


def machines(name: str, gpus: int = 0) -> list[Node]:
    """With room for all pods on any of them, but for devices."""
    memory, labels = (256 + 2 * PODS) * 2**30, (("test", name),)
    return [
        Node(f"{name}-{n}", 64_000, memory, pods=2 * PODS + 110, gpu_count=gpus, labels=labels) for n in range(MACHINES)
    ]


async def make(client: Client, namespace: str, names: list[str], scheduler: str, where: str, **more: Any) -> None:
    for name in names:
        made = pod(name, scheduler=scheduler, cpu="10m", nodeSelector={"test": where}, **more)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", made)


async def all_placed(client: Client, namespace: str) -> set[str]:
    """Waits until they have a node. Names of those that were called unschedulable meanwhile."""
    await all_bound(client, namespace, seconds=PLACED_SECONDS, pause=PAUSE)
    return await refused_pods(client, namespace)


async def pods_of(client: Client, namespace: str) -> list[Json]:
    return (await client.list_all(f"/api/v1/namespaces/{namespace}/pods"))[0]


def answered_at(port: int) -> Answered:
    async def ask() -> float:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if (sample.name, sample.labels) == ("pilotage_serve_requests_total", {"verb": "prioritize", "reason": "ok"})
        )

    return ask


async def recovered(client: Client, namespace: str, answered: Answered, where: str) -> float:
    """The service is back: pods are scored again within the promised time. The seconds it took."""
    clock, before = SystemClock(), await answered()
    began = clock.now()
    while await answered() == before:
        assert clock.now() - began < RECOVERY_SECONDS
        there = len(await pods_of(client, namespace))
        await make(client, namespace, [f"again-{there}"], "pilotage-score", where)
        assert not await all_placed(client, namespace)
    return clock.now() - began


@asynccontextmanager
async def back(lab: Lab, port: int, policy: str) -> AsyncIterator[None]:
    """A service that has nothing wrong with it."""
    with a_service(replace(following(lab, policy), port=port)):
        await ready(port)
        yield


# Scores alone


async def pods_without_scores(client: Client, lab: Lab, namespace: str, where: str) -> tuple[Counter[str], set[str]]:
    """They come while the service fails: why kube-scheduler decided by itself, and pods called unschedulable."""
    before = fallbacks(lab, SCORES)
    await make(client, namespace, [f"pod-{i}" for i in range(PODS)], "pilotage-score", where)
    refused = await all_placed(client, namespace)
    return fallbacks(lab, SCORES) - before, refused


def note_scores(
    fault: str, found: tuple[Counter[str], set[str]], scheduler: subprocess.Popen[bytes], took: float
) -> None:
    counted, refused = found
    restarts = int(scheduler.poll() is not None)
    note(Row("extender-score", fault, PODS, len(refused), restarts, reasons(counted), 0, took))
    assert (refused, restarts) == (set(), 0)


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_answers_stop_no_pod(lab: Lab, fault: str) -> None:
    where, (answer, expected) = f"wrong-{fault}", FAULTS[fault]
    (port,) = free_ports(1, lab.ports.values())

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace):
            with a_kube_scheduler(lab, SCORES, f"http://127.0.0.1:{port}") as scheduler:
                async with answering(answer, port):
                    found = await pods_without_scores(client, lab, namespace, where)
                async with back(lab, port, "least-allocated"):
                    took = await recovered(client, namespace, answered_at(port), where)
                note_scores(fault, found, scheduler, took)
                counted, _ = found
                assert counted.total() == (PODS if expected else counted["deadline"])  # each once
                assert set(counted) <= expected | BUSY
                assert not expected or any(counted[reason] for reason in expected)

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_a_service_that_does_not_answer_stops_no_pod(lab: Lab, number: signal.Signals) -> None:
    killed = number == signal.SIGKILL
    fault = "killed" if killed else "paused"
    where, (port,) = f"silent-{fault}", free_ports(1, lab.ports.values())
    options, answered = ("--policy", "least-allocated", "--port", str(port)), answered_at(port)

    async def run() -> None:
        async with own_nodes(lab, machines(where)) as (client, namespace):
            with a_kube_scheduler(lab, SCORES, f"http://127.0.0.1:{port}") as scheduler:
                with a_serve_process(lab, *options) as (process, _):
                    await ready(port)
                    await recovered(client, namespace, answered, where)
                    process.send_signal(number)
                    found = await pods_without_scores(client, lab, namespace, where)
                    if not killed:
                        process.send_signal(signal.SIGCONT)
                        await ready(port)
                        took = await recovered(client, namespace, answered, where)
                if killed:
                    with a_serve_process(lab, *options):
                        await ready(port)
                        took = await recovered(client, namespace, answered, where)
                note_scores(fault, found, scheduler, took)
                counted, _ = found
                assert counted.total() == PODS
                assert set(counted) <= {"unreachable" if killed else "deadline"} | BUSY

    asyncio.run(run())


class Renewable:
    """Files of a server whose certificate has expired, and can be renewed; `ca.crt` has signed both."""

    def __init__(self, directory: Path) -> None:
        now = datetime.now(UTC)
        past, self._present = Authority("past", now - timedelta(days=400)), Authority("present", now)  # for a year
        self.authority = write_private(directory / "ca.crt", past.pem + self._present.pem)
        self.security = Security(directory / "server.crt", directory / "server.key")
        self._write(past)

    def renew(self) -> None:
        self._write(self._present)

    def _write(self, authority: Authority) -> None:
        fresh = authority.issue("server")
        for path, data in ((self.security.key, fresh.key), (self.security.certificate, fresh.certificate)):
            assert path is not None
            write_private(path, data)


@pytest.fixture
def renewable(tmp_path: Path) -> Renewable:
    return Renewable(tmp_path)


def answered_by(serving: Serving) -> Answered:
    async def ask() -> float:
        labels = {"verb": "prioritize", "reason": "ok"}
        return serving.metrics.registry.get_sample_value("pilotage_serve_requests_total", labels) or 0.0

    return ask


def test_an_expired_certificate_stops_no_pod(lab: Lab, renewable: Renewable) -> None:
    """And the service that has it need not be started again when it is renewed."""
    settings = following(lab, "least-allocated", security=renewable.security)

    async def run() -> None:
        async with own_nodes(lab, machines("expired")) as (client, namespace):
            with (
                a_service(settings) as serving,
                a_kube_scheduler(lab, SCORES, f"https://127.0.0.1:{serving.port}", renewable.authority) as scheduler,
            ):
                found = await pods_without_scores(client, lab, namespace, "expired")
                renewable.renew()
                took = await recovered(client, namespace, answered_by(serving), "expired")
                note_scores("tls-expired", found, scheduler, took)
                counted, _ = found
                assert (counted.total(), set(counted) <= {"tls"} | BUSY, counted["tls"] > 0) == (PODS, True, True)
                assert "certificate has expired" in log_of(lab, SCORES).read_text(errors="replace")

    asyncio.run(run())


# GPU shares


@pytest.mark.parametrize("fault", ["killed", "paused", *FAULTS, "tls-expired"])
def test_gpu_pods_wait_for_the_service_and_none_is_without_its_device(
    lab: Lab, fault: str, renewable: Renewable
) -> None:
    where, clock = f"gpu-{fault}", SystemClock()
    (port,) = free_ports(1, lab.ports.values())
    by_tls = fault == "tls-expired"
    address, authority = (
        (f"https://127.0.0.1:{port}", renewable.authority) if by_tls else (f"http://127.0.0.1:{port}", None)
    )
    gpus = -(-PODS // (10 * MACHINES)) + 1  # ten pods share one

    async def fail(stack: AsyncExitStack) -> None:
        if by_tls:
            settings = replace(following(lab, "best-fit", security=renewable.security), port=port)
            stack.enter_context(a_service(settings))
        elif fault in ("killed", "paused"):
            served = a_serve_process(lab, "--policy", "best-fit", "--port", str(port))
            process, _ = stack.enter_context(served)
            await ready(port)
            process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        else:
            await stack.enter_async_context(answering(FAULTS[fault][0], port))

    async def mend(failing: AsyncExitStack, stack: AsyncExitStack) -> None:
        if by_tls:
            await stack.enter_async_context(failing.pop_all())
            renewable.renew()
        else:
            await failing.aclose()
            await stack.enter_async_context(back(lab, port, "best-fit"))

    async def run() -> None:
        async with own_nodes(lab, machines(where, gpus)) as (client, namespace):
            with a_kube_scheduler(lab, SHARES, address, authority) as scheduler:
                async with AsyncExitStack() as stack, AsyncExitStack() as failing:
                    await fail(failing)
                    names = [f"pod-{i}" for i in range(PODS)]
                    await make(client, namespace, names, "pilotage-gpu", where, annotations=SHARE)
                    await tried(client, namespace)
                    early = [one for one in await pods_of(client, namespace) if one["spec"].get("nodeName")]
                    await mend(failing, stack)
                    began = clock.now()  # and kube-scheduler tries again by itself
                    await first_placed(client, namespace)
                    took = clock.now() - began
                    await all_placed(client, namespace)
                    placed = await pods_of(client, namespace)
                bare = [one for one in placed if not one["metadata"]["annotations"].get(INDEX)]
                restarts = int(scheduler.poll() is not None)
                never = PODS - len(placed)
                note(Row("extender-gpu", fault, PODS, never, restarts, "", len(early) + len(bare), took))
                assert (early, bare, restarts) == ([], [], 0)
                assert took < RECOVERY_SECONDS + LONGEST_PAUSE

    asyncio.run(run())


async def first_placed(client: Client, namespace: str) -> None:
    async def ask() -> bool | None:
        placed, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods", fieldSelector="spec.nodeName!=")
        return True if placed else None

    await eventually(ask, "a pod is placed")


async def tried(client: Client, namespace: str) -> None:
    """Waits until kube-scheduler has tried a pod and said why it waits."""

    async def ask() -> bool | None:
        return True if await refused_pods(client, namespace) else None

    await eventually(ask, "kube-scheduler has tried and failed")
