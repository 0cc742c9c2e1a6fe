"""How fast and how lean the service is: one caller in a closed loop, then calls at a given rate, then many calls."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import aiohttp
import orjson

from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.model.errors import PilotageError
from pilotage.serving.offered import Offered
from pilotage.serving.run import Serving, Settings
from pilotage.serving.warming import settle

WARM_UP = 200  # calls that are not measured
BODIES = 500  # different ones: pods and orders of nodes
SENDERS = 16  # connections of the open loop
SHARE_ANSWERED = 0.99  # within LATE_SECONDS of when a call was due, for a rate to count as borne
LATE_SECONDS = 0.1
STEP = 1.25  # from one rate to the next
LOWEST_RATE = 1.0  # calls per second


@dataclass(frozen=True)
class Figures:
    """Of one service."""

    nodes: int
    calls_per_second: float
    p50_ms: float
    p99_ms: float
    peak_rss_mb: float
    rss_growth_mb: float
    calls: int


class AnswerError(PilotageError):
    """An answer that is not 200: nothing can be measured so."""

    exit_code = 1


class NotStartedError(PilotageError):
    """There is no service to measure."""

    exit_code = 1


def nodes_of(count: int) -> tuple[Node, ...]:
    return tuple(Node(f"node-{n:05d}", 64_000 + n, 256 * 2**30 + n * 2**20, gpu_count=n % 3 * 4) for n in range(count))


def bodies(nodes: int, seed: int = 0) -> list[bytes]:
    """Questions of prioritize, names only."""
    random, names = Random(seed), [node.name for node in nodes_of(nodes)]  # noqa: S311
    made = []
    for number in range(BODIES):
        random.shuffle(names)
        request = {"cpu": f"{random.randrange(100, 4000, 100)}m", "memory": f"{random.randrange(1, 16)}Gi"}
        annotations = {}
        if number % 2:
            annotations = {
                "alibabacloud.com/gpu-milli": str(random.randrange(100, 1001, 100)),
                "alibabacloud.com/gpu-count": "1",
            }
        pod = {
            "metadata": {
                "uid": f"uid-{number}",
                "name": f"pod-{number}",
                "namespace": "default",
                "annotations": annotations,
            },
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": request}}]},
        }
        made.append(orjson.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}))
    return made


@contextmanager
def a_process(nodes: int, policy: str) -> Iterator[tuple[int, int]]:
    """The service in a process of its own: its id and port."""
    Offered.read((policy,))  # what is wrong with it is said here, not in a process that ends
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(nodes, policy, there), daemon=True)
    process.start()
    there.close()  # else the pipe has no end when the process has
    try:
        yield int(process.pid or 0), _port(here)
    finally:
        with suppress(OSError):  # it has ended by itself
            here.send("stop")
        process.join(30)


def _port(pipe: Connection) -> int:
    try:
        return int(pipe.recv())
    except EOFError:
        raise NotStartedError("the service ended before it could be asked; what it wrote says why") from None


def _serve(nodes: int, policy: str, pipe: Connection) -> None:
    import uvloop

    async def run() -> None:
        settings = Settings(policies=(policy,), port=0, nodes=nodes_of(nodes))
        async with Serving(settings, SystemClock()).running() as serving:
            settle()
            pipe.send(serving.port)
            await asyncio.to_thread(pipe.recv)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def measure(pid: int, port: int, nodes: int, *, calls: int, rate: float, seconds: float) -> Figures:
    asked = bodies(nodes)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=SENDERS)) as session:
        caller = _Caller(session, f"http://127.0.0.1:{port}/extender/prioritize", asked)
        for _ in range(WARM_UP):
            await caller.call()
        times = [await caller.call() for _ in range(min(calls, 2000))]
        before = _memory(pid, "VmRSS")
        borne = await _highest_rate(caller.bears, rate, seconds)
        left = calls - caller.answered
        if left > 0:
            await caller.many(left)
        growth = _memory(pid, "VmRSS") - before
    times.sort()
    return Figures(
        nodes=nodes,
        calls_per_second=round(borne, 1),
        p50_ms=round(1000 * times[len(times) // 2], 3),
        p99_ms=round(1000 * times[int(0.99 * (len(times) - 1))], 3),
        peak_rss_mb=round(_memory(pid, "VmHWM"), 1),
        rss_growth_mb=round(growth, 1),
        calls=caller.answered,
    )


async def _highest_rate(bears: Callable[[float, float], Awaitable[bool]], rate: float, seconds: float) -> float:
    """Of those that are borne, in steps from the first one up; down from it, where even that is too much."""
    if not await bears(rate, seconds):
        while rate > LOWEST_RATE:
            rate /= STEP
            if await bears(rate, seconds):
                return rate
        return 0.0
    while await bears(rate * STEP, seconds):
        rate *= STEP
    return rate


@dataclass
class _Caller:
    session: aiohttp.ClientSession
    url: str
    asked: list[bytes]
    answered: int = 0

    async def call(self) -> float:
        """Seconds until the whole answer was there."""
        body = self.asked[self.answered % len(self.asked)]
        began = time.perf_counter()
        async with self.session.post(self.url, data=body, headers={"Content-Type": "application/json"}) as answer:
            content = await answer.read()
        if answer.status != 200:
            raise AnswerError(f"status {answer.status}: {content[:200].decode('utf-8', 'replace')}")
        self.answered += 1
        return time.perf_counter() - began

    async def bears(self, rate: float, seconds: float) -> bool:
        """Whether calls at this rate, each sent when it is due, are answered in time."""
        start = time.perf_counter()
        due = [start + n / rate for n in range(int(rate * seconds))]
        late: list[float] = []

        async def send() -> None:
            while due:
                moment = due.pop(0)
                await asyncio.sleep(max(0.0, moment - time.perf_counter()))
                await self.call()
                late.append(time.perf_counter() - moment)

        await asyncio.gather(*(send() for _ in range(SENDERS)))
        return sum(wait <= LATE_SECONDS for wait in late) >= SHARE_ANSWERED * len(late)

    async def many(self, count: int) -> None:
        async def send(times: int) -> None:
            for _ in range(times):
                await self.call()

        await asyncio.gather(*(send(count // SENDERS + 1) for _ in range(SENDERS)))


def _memory(pid: int, field: str) -> float:
    """In MB."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0
