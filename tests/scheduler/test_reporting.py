"""Why pods wait is told to the cluster, also when a first try fails."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from kube.servers import until
from scheduler.apiserver import FakeServer, refused, scheduling


@pytest.mark.parametrize("lost", ["status", "events"])
def test_a_report_that_was_lost_is_written_by_the_next_attempt(lost: str) -> None:
    """Its message stays the same: it counted as told."""

    async def test() -> None:
        server, faults = FakeServer(), [503]

        def once(request: web.Request) -> web.Response | None:
            return refused(faults.pop()) if faults and request.path.endswith(f"/{lost}") else None

        server.before = once
        async with scheduling(server) as (_, said):
            server.make("large", requests={"cpu": "20"})
            await until(lambda: any("503" in text for text in said), "the fault is told")
            tries = len(server.requests)
            await asyncio.sleep(0.2)
            assert len(server.requests) == tries  # not again and again
            server.change("n0", lambda node: node["metadata"]["labels"].update(new="label"), "nodes", "")
            await until(lambda: bool(server.message("large") and server.events), "it is told")

    asyncio.run(asyncio.wait_for(test(), 60))
