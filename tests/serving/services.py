"""A real service for tests: in a thread with a loop of its own, on a free port of loopback."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from pilotage.kube.client import Json
from pilotage.model.clock import Clock, SystemClock
from pilotage.serving.run import Serving, Settings

_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}  # by port


def reload(serving: Serving) -> bool:
    """As SIGHUP does, in the loop of the service."""
    return asyncio.run_coroutine_threadsafe(serving.reload(), _LOOPS[serving.port]).result(600)


def end(loop: asyncio.AbstractEventLoop) -> None:
    """Connections whose handshake or farewell is under way belong to nobody any more: they are let go."""
    for transport in [*loop._transports.values()]:  # type: ignore[attr-defined]
        transport.abort()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@contextmanager
def a_service(settings: Settings | None = None, clock: Clock | None = None) -> Iterator[Serving]:
    """Yields when it is ready to listen; at the end everything has stopped."""
    settings = settings or Settings(policies=("least-allocated",), port=0)
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()
    found: list[Serving | BaseException] = []

    async def run() -> None:
        serving = Serving(settings, clock or SystemClock())
        async with serving.running():
            found.append(serving)
            started.set()
            await stop.wait()

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(run())
        except BaseException as error:  # handed to the test
            found.append(error)
            started.set()
        finally:
            end(loop)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(600)  # kernels may have to be compiled first
    if isinstance(found[0], BaseException):
        thread.join()
        raise found[0]
    _LOOPS[found[0].port] = loop
    try:
        yield found[0]
    finally:
        _LOOPS.pop(found[0].port, None)
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()
        assert not any(isinstance(one, BaseException) for one in found), found


async def post(url: str, body: Any, **more: Any) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    async with aiohttp.ClientSession() as session, session.post(url, json=body, **more) as answer:
        return answer.status, await answer.json()


def ask(serving: Serving, path: str, body: Any, **more: Any) -> tuple[int, Any]:
    return asyncio.run(post(f"http://127.0.0.1:{serving.port}{path}", body, **more))


def read(serving: Serving, path: str) -> tuple[int, bytes]:
    async def get() -> tuple[int, bytes]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{serving.port}{path}") as answer:
            return answer.status, await answer.read()

    return asyncio.run(get())


def a_small_pod(name: str = "web", cpu: str = "1", **annotations: str) -> Json:
    return {
        "metadata": {"uid": f"uid-{name}", "name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
    }


def a_state(cpu: int = 8000, used: int = 0, gpus: int = 0, **more: Any) -> Json:
    extended = {"alibabacloud.com/gpu-count": gpus} if gpus else {}
    return {
        "allocatable": {"cpuMilli": cpu, "memoryBytes": 2**35, "pods": 110, "extended": extended},
        "requested": {"cpuMilli": used, "memoryBytes": used * 2**20, "pods": 1},
        **more,
    }


def column(numbers: Iterable[int], size: int) -> str:
    """As they travel: so many bytes each, the lowest first, in base64."""
    return b64encode(b"".join(number.to_bytes(size, "little", signed=number < 0) for number in numbers)).decode()


def numbered(*pairs: tuple[int, int], told: list[Json] | None = None) -> Json:
    """Candidates as pairs of number and generation."""
    numbers, generations = ([pair[i] for pair in pairs] for i in range(2))
    return {"numbers": column(numbers, 4), "generations": column(generations, 8), "told": told or []}


def scores_of(answer: Json) -> list[int]:
    """By number."""
    return list(b64decode(answer["scores"]))


def a_question(candidates: list[Json] | Json, pod: Json | None = None, **more: Any) -> Json:
    return {"apiVersion": "v1", "pod": pod or a_small_pod(), "candidates": candidates, "deadlineMs": 10_000, **more}
