"""A scheduler in a task of the test, on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deploy.chart import scheduler_account
from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab
from pilotage.model.clock import SystemClock
from pilotage.policies.registry import find_policy
from pilotage.scheduler.run import Scheduler, Settings


@asynccontextmanager
async def a_scheduler(
    lab: Lab, *profiles: str, settings: Settings = Settings(), expected: list[str] | None = None
) -> AsyncIterator[Scheduler]:
    """Profiles as schedulerName=policy, with the rights of the chart's service account. Problems go to `expected`."""
    policies = {name: find_policy(policy) for name, _, policy in (text.partition("=") for text in profiles)}
    access = read_kubeconfig(await scheduler_account(lab), None, SystemClock())
    problems: list[str] = expected if expected is not None else []
    async with Client(access) as client:
        scheduler = Scheduler(client, policies, SystemClock(), settings, on_problem=problems.append)
        stop = asyncio.Event()
        task = asyncio.create_task(scheduler.run(stop))
        try:
            yield scheduler
        finally:
            stop.set()
            await task
    assert expected is not None or problems == []


def condition(pod: Json) -> Json:
    """Its condition PodScheduled, empty when there is none."""
    return next((c for c in pod["status"].get("conditions") or () if c["type"] == "PodScheduled"), {})
