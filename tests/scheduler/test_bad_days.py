"""The scheduler when the API server, credentials or its own parts fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from kube.servers import a_client, until
from pilotage.kube.access import Access
from pilotage.kube.errors import EndedError
from pilotage.kube.lease import Lease, LeaseSettings, NotLeadingError
from pilotage.model.clock import SystemClock, VirtualClock
from pilotage.model.errors import InputError
from pilotage.scheduler.run import Settings
from scheduler.apiserver import GROUPS, FakeServer, a_scheduler_of, refused, scheduling
from scheduler.test_lease import Store


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


class FailingTokens:
    """A plugin that fails for a while."""

    fails = False
    asked = 0

    async def token(self, *, renew: bool = False) -> str:
        self.asked += 1
        if self.fails:
            raise InputError("ended with code 1", field="exec")
        return "token"


def test_a_token_that_cannot_be_had_for_a_while_is_waited_out() -> None:
    async def test() -> None:
        server, tokens = FakeServer(), FailingTokens()
        async with scheduling(server, tokens=tokens) as (scheduler, said):
            tokens.fails = True
            server.drop_watches()
            server.make("a")
            await until(lambda: any("no token" in text for text in said), "the fault is told")
            assert server.node_of("a") == ""
            tokens.fails = False
            await until(lambda: server.node_of("a") == "n0", "the pod is bound when there is a token again")
            await until(lambda: not scheduler.cache.state.assumed("uid-a"), "the binding is seen")

    run(test)


def test_a_lease_survives_a_token_that_cannot_be_had() -> None:
    async def test() -> None:
        tokens = FailingTokens()
        tokens.fails = True
        async with a_client(FakeServer().answer, tokens) as client:
            lease = Lease(client.access, "me", SystemClock(), LeaseSettings())
            await lease.attempt(client)
            assert not lease.leads

    run(test)


def test_a_lease_whose_thread_died_ends_the_scheduler() -> None:
    class Broken:
        async def token(self, *, renew: bool = False) -> str:
            raise ZeroDivisionError("a fault of ours")

    async def test() -> None:
        async with a_client(FakeServer().answer) as client:
            scheduler = a_scheduler_of(client)
            access = Access(client.access.server, None, Broken())
            scheduler.lease = Lease(access, "me", SystemClock(), LeaseSettings())
            with pytest.raises(EndedError, match="renewing the lease has ended: ZeroDivisionError: a fault of ours"):
                await scheduler.run(asyncio.Event())

    run(test)


def test_an_informer_that_ends_ends_the_scheduler() -> None:
    async def test() -> None:
        server, stop = FakeServer(), asyncio.Event()
        async with a_client(server.answer) as client:
            scheduler = a_scheduler_of(client)
            task = asyncio.create_task(scheduler.run(stop))
            await scheduler.synced.wait()
            server.put("pods", {"metadata": {"name": "no-pod", "namespace": "default"}})
            with pytest.raises(EndedError, match="following /api/v1/pods has ended: KeyError"):
                await task
            assert stop.is_set()

    run(test)


def test_a_binding_that_dies_ends_the_scheduler() -> None:
    async def test() -> None:
        server = FakeServer()
        async with a_client(server.answer) as client:
            scheduler = a_scheduler_of(client)

            async def dies(*words: object) -> Any:
                raise ZeroDivisionError("a fault of ours")

            scheduler.bindings.binder.bind = dies  # type: ignore[assignment, method-assign]
            server.make("a")
            with pytest.raises(EndedError, match="writing a decision has ended: ZeroDivisionError"):
                await scheduler.run(asyncio.Event())

    run(test)


def lost(request: web.Request) -> web.Response:
    """The connection breaks before the reply."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize("how", ["lost", "500", "504"])
def test_the_room_of_a_binding_whose_fate_is_unknown_is_kept(committed: bool, how: str) -> None:
    async def test() -> None:
        server, out = FakeServer(), True

        def no_reply(request: web.Request) -> web.Response | None:
            if not out or request.method != "POST":
                return None
            server.silent = True
            return lost(request) if how == "lost" else refused(int(how))

        def no_look_up(request: web.Request) -> web.Response | None:
            return refused(503) if out and request.method == "GET" and "/pods/" in request.path else None

        if committed:
            server.before, server.after = no_look_up, no_reply
        else:
            server.before = lambda request: no_reply(request) or no_look_up(request)
        async with scheduling(server) as (scheduler, said):
            server.make("a")
            await until(lambda: server.count("GET a") >= 2, "it is looked up again and again")
            assert scheduler.cache.state.assumed("uid-a")
            assert (server.node_of("a") == "n0") == committed
            out = False
            server.speak()
            await until(lambda: server.node_of("a") == "n0" and scheduler.bindings.bound == 1, "it is bound")
            assert server.count("POST binding") == (1 if committed else 2)
            assert sum("is not known" in text for text in said) == 1

    run(test)


def test_a_scheduler_that_waits_to_know_can_be_stopped() -> None:
    async def test() -> None:
        server = FakeServer()
        server.before = lambda request: refused(503) if "/pods/" in request.path else None
        async with scheduling(server, settings=Settings(binds_at_once=1)) as (_, said):
            server.make("first")
            server.make("second")
            await until(lambda: any("is not known" in text for text in said), "it is looked up")

    run(test)


def test_pod_groups_that_may_not_be_listed_are_left_out_and_named() -> None:
    async def test() -> None:
        server = FakeServer(gangs=True)
        server.before = lambda request: refused(403, "Forbidden") if request.path == GROUPS else None
        async with scheduling(server) as (_, said):
            server.make("a")
            await until(lambda: server.node_of("a") == "n0", "pods without a group are bound")
            assert said == ["PodGroups of scheduling.x-k8s.io are left out: they cannot be listed"]

    run(test)


def test_faults_of_a_watch_of_pod_groups_are_told() -> None:
    async def test() -> None:
        server = FakeServer(gangs=True)
        async with scheduling(server) as (_, said):
            server.before = lambda request: refused(503) if request.path == GROUPS else None
            server.drop_watches()
            await until(lambda: any(GROUPS in text for text in said), "the fault is told")

    run(test)


class Turn:
    """A lease that the test gives and takes."""

    leads = False
    term = 0

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def check(self) -> None: ...

    def expect_alive(self) -> None: ...

    def begin(self) -> None:
        self.term += 1
        self.leads = True


def test_who_begins_to_lead_lists_before_it_decides() -> None:
    """The watches of one that waited for its turn are open, and nobody is at their other end."""

    async def test() -> None:
        server, turn, stop = FakeServer(), Turn(), asyncio.Event()
        async with a_client(server.answer) as client:
            scheduler = a_scheduler_of(client)
            scheduler.lease = turn  # type: ignore[assignment]
            task = asyncio.create_task(scheduler.run(stop))
            server.make("waits", requests={"cpu": "3"})
            await until(lambda: "uid-waits" in scheduler.cache.pods, "it knows the pod")
            server.silent = True
            server.make("other", requests={"cpu": "3"}, node="n0")  # by the one that led until now
            turn.begin()
            await until(lambda: server.message("waits") != "", "it has decided")
            assert "1 Insufficient cpu" in server.message("waits")
            lists = server.count("GET nodes")
            await asyncio.sleep(0.2)
            assert server.count("GET nodes") == lists == 2  # once for each turn
            stop.set()
            await task

    run(test)


def test_a_turn_begins_when_leading_does_and_after_a_break() -> None:
    async def test() -> None:
        store, clock = Store(), VirtualClock()
        async with a_client(store.answer) as client:
            lease = Lease(client.access, "me", clock, LeaseSettings())
            for seconds, term in ((0.0, 1), (2.0, 1), (9.0, 1), (60.0, 2), (2.0, 2)):
                clock.wait(seconds)
                await lease.attempt(client)
                assert (lease.leads, lease.term) == (True, term)

    run(test)


def test_a_promise_that_cannot_be_written_is_taken_back() -> None:
    async def test() -> None:
        server = FakeServer()
        server.make("low", node="n0", requests={"cpu": "4"})
        async with scheduling(server) as (scheduler, said):

            def lost() -> None:
                raise NotLeadingError("the lease was lost")

            def goes(request: web.Request) -> web.Response | None:
                if not request.path.endswith("/low/eviction"):
                    return None
                server.remove("low")
                return web.json_response({}, status=201)

            server.before = goes
            binder = scheduler.bindings.binder
            leads, binder.may_write = binder.may_write, lost
            server.make("urgent", requests={"cpu": "4"}, priority=10)
            await until(lambda: any("preemption for default/urgent" in text for text in said), "it is told")
            await until(lambda: not scheduler.cache.claims.known, "the room is nobody's")
            await scheduler.tasks.finish()
            scheduler.tasks.expect_alive()
            assert server.count("POST eviction") == 0
            binder.may_write = leads
            await until(lambda: server.node_of("urgent") == "n0", "the next promise is kept")

    run(test)


def test_a_pod_that_its_kubelet_refuses_is_counted_once_by_reason() -> None:
    """The watch of unfinished pods tells of its end with the pod as it was before: nothing was ever counted."""

    async def test() -> None:
        server = FakeServer()
        server.make("before", node="n0", phase="Failed")
        async with scheduling(server) as (scheduler, said):
            server.make("a", node="n0")
            await until(lambda: "uid-a" in scheduler.cache.pods, "the pod is known")
            server.change("a", lambda pod: pod["status"].update(phase="Failed", reason="OutOfcpu"))
            await until(lambda: "uid-a" not in scheduler.cache.pods, "its room is free again")
            await until(
                lambda: any("default/a was refused by its node (OutOfcpu)" in text for text in said), "it is told"
            )
            server.change("a", lambda pod: pod["metadata"].update(labels={"seen": "yes"}))
            server.make("b")
            await until(lambda: server.node_of("b") == "n0", "later events have come")
            assert scheduler.metrics.rejected.labels("OutOfcpu")._value.get() == 1

    run(test)
