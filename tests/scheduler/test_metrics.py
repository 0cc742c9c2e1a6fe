"""Figures say what is true when they are asked for."""

from __future__ import annotations

import asyncio

from kube.servers import a_client, until
from scheduler.apiserver import FakeServer, a_scheduler_of
from scheduler.test_bad_days import Turn


def test_figures_of_a_scheduler_that_does_not_lead_any_more_are_true() -> None:
    """They were written when it had nothing to do, and stayed as they were when the lease was lost."""

    async def test() -> None:
        server, turn, stop = FakeServer(), Turn(), asyncio.Event()
        async with a_client(server.answer) as client:
            scheduler = a_scheduler_of(client)
            scheduler.lease = turn  # type: ignore[assignment]
            figure = scheduler.metrics.registry.get_sample_value
            turn.begin()
            task = asyncio.create_task(scheduler.run(stop))
            server.make("large", requests={"cpu": "20"})
            await until(lambda: server.message("large") != "", "it has decided")
            await until(lambda: figure("scheduler_pending_pods", {"queue": "unschedulable"}) == 1, "it waits")
            assert figure("pilotage_leads") == 1
            turn.leads = False
            server.remove("large")
            await until(lambda: scheduler.queue.get("uid-large") is None, "it is gone")
            assert figure("pilotage_leads") == 0
            assert figure("scheduler_pending_pods", {"queue": "unschedulable"}) == 0
            assert figure("pilotage_api_calls", {"kind": "PATCH pods/status"}) == 1
            stop.set()
            await task

    asyncio.run(asyncio.wait_for(test(), 60))
