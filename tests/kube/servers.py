"""HTTP servers on loopback that answer as the test says: for what a real API server does only on bad days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from pilotage.kube.access import Access, Tokens
from pilotage.kube.client import Client

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def a_client(answer: Answer, tokens: Tokens | None = None) -> AsyncIterator[Client]:
    """A client of a server that answers every request by `answer`."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Client(Access(f"http://127.0.0.1:{port}", None, tokens)) as client:
            yield client
    finally:
        await runner.cleanup()


async def until(true: Callable[[], bool], what: str) -> None:
    """Waits for something that other tasks bring about."""
    deadline = asyncio.get_running_loop().time() + 20
    while not true():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.005)
