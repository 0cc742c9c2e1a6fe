"""What is written about pods, and what is made of the answers: bindings, conditions, evictions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from kube.objects import a_node, a_pod
from kube.servers import a_client, until
from pilotage.kube.binding import Binder
from pilotage.kube.errors import KubeError
from pilotage.kube.lease import NotLeadingError
from pilotage.kube.podview import read_pod
from pilotage.model.clock import VirtualClock
from scheduler.apiserver import FakeServer, refused, scheduling


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize(
    ("uid", "node", "deleting", "result"),
    [
        ("uid-a", "n0", False, "bound"),
        ("uid-a", "n0", True, "bound"),
        ("uid-a", "n1", True, "elsewhere"),
        ("uid-a", "", False, "failed"),
        ("uid-a", "", True, "gone"),
        ("another", "n0", False, "gone"),
    ],
)
def test_what_a_pod_tells_of_its_binding(uid: str, node: str, deleting: bool, result: str) -> None:
    async def test() -> None:
        server = FakeServer()
        found = a_pod("a", node=node)
        found["metadata"] |= {"uid": uid, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
        server.put("pods", found)
        async with a_client(server.answer) as client:
            binder = Binder(client, VirtualClock(), "test")
            assert await binder.look_up(read_pod(a_pod("a")), "n0") == result

    run(test)


def test_the_room_of_a_pod_that_was_bound_and_is_being_deleted_stays_taken() -> None:
    """The reply was lost and the watch has told nothing yet: its room was given to the next pod."""

    async def test() -> None:
        server = FakeServer(a_node("n0", "2"))

        def deleted_meanwhile(request: web.Request) -> web.Response | None:
            if not request.path.endswith("/binding"):
                return None
            server.silent = True
            server.change("a", lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
            return refused(504)

        server.after = deleted_meanwhile
        async with scheduling(server) as (scheduler, _):
            server.make("a", requests={"cpu": "2"})
            await until(lambda: server.count("POST binding") == 1, "it is bound")
            await until(lambda: scheduler.queue.get("uid-a") is None, "it is known what became of it")
            assert scheduler.cache.state.assumed("uid-a")

    run(test)


@pytest.mark.parametrize("news", [True, False])
def test_who_does_not_lead_tells_nobody_that_a_pod_does_not_fit(news: bool) -> None:
    """Whoever leads now may have placed it; autoscalers act on what is told."""

    def lost() -> None:
        raise NotLeadingError("the lease was lost")

    async def test() -> None:
        server = FakeServer()
        server.make("a")
        found = a_pod("a")
        if not news:
            found["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "no room"}]
        async with a_client(server.answer) as client:
            with pytest.raises(NotLeadingError):
                await Binder(client, VirtualClock(), "test", lost).tell_unschedulable(read_pod(found), "no room")
        assert (server.message("a"), server.events) == ("", [])

    run(test)


def evicting(answer: web.Response) -> FakeServer:
    """A server that answers evictions so."""
    server = FakeServer()
    server.make("a", node="n0", schedulerName="another")
    server.before = lambda request: answer if request.path.endswith("/eviction") else None
    return server


async def evicted(server: FakeServer, said: list[str]) -> bool:
    async with a_client(server.answer) as client:
        binder = Binder(client, VirtualClock(), "test", on_problem=said.append)
        return await binder.evict(read_pod(server.objects["pods"]["default/a"]), "Preempted by pod b")


def test_a_budget_may_keep_a_pod_and_a_busy_server_is_no_budget() -> None:
    """Both answer 429."""
    status = {"kind": "Status", "reason": "TooManyRequests", "details": {"causes": [{"reason": "DisruptionBudget"}]}}

    async def test() -> None:
        assert not await evicted(evicting(web.json_response(status, status=429)), [])
        with pytest.raises(KubeError, match="429"):
            await evicted(evicting(web.Response(text="Too many requests, please try again later.", status=429)), [])

    run(test)


def test_the_event_of_a_pod_that_is_told_to_go_names_who_told_it() -> None:
    async def test() -> None:
        server = evicting(web.json_response({}, status=201))
        assert await evicted(server, [])
        assert [event["reportingController"] for event in server.events] == ["pilotage-scheduler"]

    run(test)


def test_a_pod_whose_event_was_refused_goes_all_the_same() -> None:
    """Its namespace may be ending. It counted as one that stays, and others were told to go in its place."""

    async def test() -> None:
        server, said = evicting(web.json_response({}, status=201)), list[str]()
        told = server.before
        server.before = lambda request: refused(403) if request.path.endswith("/events") else told(request)
        assert await evicted(server, said)
        assert len(said) == 1
        assert said[0].startswith("default/a was told to go, but not why: ")

    run(test)
