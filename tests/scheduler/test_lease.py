"""The fence, by a clock that tests move."""

from __future__ import annotations

import asyncio
import os

import pytest
from aiohttp import web

from kube.servers import a_client
from pilotage.kube.client import Client, Json
from pilotage.kube.lease import Lease, LeaseSettings, NotLeadingError, identity_start, own_identity
from pilotage.model.clock import VirtualClock
from pilotage.model.errors import InputError


class Store:
    """One Lease, with the API server's rule for replacing: the version must be the newest."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.version = 0
        self.broken = False

    async def answer(self, request: web.Request) -> web.Response:
        if self.broken:
            return web.json_response({"reason": "InternalError"}, status=500)
        if request.method == "GET":
            return web.json_response(self.lease or {"reason": "NotFound"}, status=200 if self.lease else 404)
        body = await request.json()
        if request.method == "PUT" and body["metadata"].get("resourceVersion") != str(self.version):
            return web.json_response({"reason": "Conflict"}, status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return web.json_response(body)


def held(client: Client, name: str, clock: VirtualClock) -> Lease:
    return Lease(client.access, name, clock, LeaseSettings())


def test_leading_ends_by_itself_when_renewals_stay_away() -> None:
    async def run() -> None:
        store, clock = Store(), VirtualClock()
        async with a_client(store.answer) as client:
            lease = held(client, "a", clock)
            await lease.attempt(client)
            assert lease.leads
            clock.wait(9.9)
            lease.check()
            clock.wait(0.2)  # the process was paused: no code ran, but the time is over
            assert not lease.leads
            with pytest.raises(NotLeadingError):
                lease.check()
            await lease.attempt(client)
            assert lease.leads

    asyncio.run(run())


def test_a_lease_is_taken_over_only_after_it_was_not_renewed_for_its_time() -> None:
    async def run() -> None:
        store, clock = Store(), VirtualClock(1000.0)
        async with a_client(store.answer) as client:
            first, second = held(client, "first", clock), held(client, "second", clock)
            await first.attempt(client)
            for _ in range(3):
                await second.attempt(client)
                assert not second.leads
                clock.wait(7.0)
                await first.attempt(client)
                assert first.leads
            clock.wait(14.0)
            await second.attempt(client)
            assert not second.leads  # seen renewed less than 15 s ago
            clock.wait(15.0)
            await second.attempt(client)
            assert second.leads
            await first.attempt(client)
            assert not first.leads
            assert store.lease is not None
            assert store.lease["spec"]["holderIdentity"] == "second"
            assert store.lease["spec"]["leaseTransitions"] == 1

    asyncio.run(run())


def test_a_server_with_trouble_ends_leading_no_sooner_than_the_time() -> None:
    async def run() -> None:
        store, clock = Store(), VirtualClock()
        async with a_client(store.answer) as client:
            changes: list[bool] = []
            lease = held(client, "a", clock)
            lease.on_change = changes.append
            await lease.attempt(client)
            store.broken = True
            clock.wait(5.0)
            await lease.attempt(client)
            assert lease.leads
            clock.wait(6.0)
            await lease.attempt(client)
            assert not lease.leads
            assert changes == [True, False]

    asyncio.run(run())


def test_times_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="retry < renew < lease"):
        LeaseSettings(lease_seconds=5.0).check()


def test_processes_with_the_same_host_name_and_number_do_not_both_lead() -> None:
    """Containers that share the name of their host are process 1 of it each: the lease was renewed by both."""

    async def run() -> None:
        store, clock = Store(), VirtualClock()
        async with a_client(store.answer) as client:
            leases = [held(client, own_identity(), clock) for _ in range(2)]
            for lease in leases:
                assert lease.identity.startswith(identity_start(os.getpid()))
                await lease.attempt(client)
            assert [lease.leads for lease in leases] == [True, False]

    asyncio.run(run())
