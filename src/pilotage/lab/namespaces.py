"""Namespaces in which pods can be made at once."""

from __future__ import annotations

import asyncio

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.model.clock import Clock
from pilotage.model.errors import InputError

POLL_SECONDS = 0.05
MOST_SECONDS = 120.0  # a controller-manager that lost its API server must lead again first


async def ensure(client: Client, path: str, body: Json) -> None:
    """Creates it unless something of that name is there."""
    try:
        await client.create(path, body)
    except KubeError as error:
        if error.status != 409:
            raise


async def ensure_namespace(client: Client, name: str, clock: Clock) -> None:
    """Returns when it has a service account: pods are refused until kube-controller-manager has made one."""
    await ensure(client, "/api/v1/namespaces", {"metadata": {"name": name}})
    deadline = clock.now() + MOST_SECONDS
    while not await _has_account(client, name):
        if clock.now() > deadline:
            problem = f"the namespace {name} has no service account after {MOST_SECONDS:g} s"
            raise InputError(problem, expected="kube-controller-manager to run")
        await asyncio.sleep(POLL_SECONDS)


async def _has_account(client: Client, name: str) -> bool:
    try:
        await client.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
    except KubeError as error:
        if error.status != 404:
            raise
        return False
    return True
