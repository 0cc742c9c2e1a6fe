"""Requests: what is tried again, what is not, and what errors say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from kube.servers import a_client, until
from pilotage.kube.client import Client
from pilotage.kube.connections import MAX_CONNECTIONS
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.many import for_each
from pilotage.model.errors import PilotageError


@dataclass
class Renewing:
    """Gives out another token each time the last one was refused."""

    given: list[str] = field(default_factory=lambda: ["old"])

    async def token(self, *, renew: bool = False) -> str:
        if renew:
            self.given.append("new")
        return self.given[-1]


def test_a_refused_token_is_renewed_once() -> None:
    async def answer(request: web.Request) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return web.json_response({"fine": True} if good else {"reason": "Unauthorized"}, status=200 if good else 401)

    async def run() -> None:
        tokens = Renewing()
        async with a_client(answer, tokens) as client:
            assert await client.get("/api/v1/nodes") == {"fine": True}
            assert tokens.given == ["old", "new"]
            assert client.calls["GET nodes"] == 2

    asyncio.run(run())


def test_a_token_that_stays_refused_is_an_error() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)

    async def run() -> None:
        async with a_client(answer, Renewing()) as client:
            with pytest.raises(KubeError, match="401 Unauthorized: no"):
                await client.get("/api/v1/nodes")
            assert client.calls["GET nodes"] == 2

    asyncio.run(run())


def test_a_busy_server_is_asked_again() -> None:
    answers = iter([429, 429, 200])

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}, status=next(answers), headers={"Retry-After": "0"})

    async def run() -> None:
        async with a_client(answer) as client:
            assert await client.create("/api/v1/namespaces/x/pods/y/binding", {}) == {}
            assert client.calls["POST pods/binding"] == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, '{"reason": "NotFound", "message": "no pod"}', "404 NotFound: no pod"),
        (500, "<html>", "500 NotJSON"),
        (200, "[]", "200 NotJSON"),
        (302, "{}", "302"),
    ],
)
def test_what_errors_say(status: int, body: str, said: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body, status=status, headers={"Location": "http://127.0.0.1:1/"})

    async def run() -> None:
        async with a_client(answer) as client:
            with pytest.raises(KubeError, match=said):
                await client.get("/api/v1/pods")

    asyncio.run(run())


def test_a_lost_server_is_unreachable_and_not_asked_twice() -> None:
    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def run() -> None:
        async with a_client(answer) as client:
            with pytest.raises(UnreachableError):
                await client.create("/api/v1/namespaces/x/pods/y/binding", {})

    asyncio.run(run())
    assert asked == 1


def test_lists_are_read_page_by_page() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.query["limit"] == "500"
        last = request.query.get("continue") == "more"
        items = [{"n": 2}] if last else [{"n": 1}]
        return web.json_response(
            {"items": items, "metadata": {"resourceVersion": "7", "continue": "" if last else "more"}}
        )

    async def run() -> None:
        async with a_client(answer) as client:
            assert await client.list_all("/api/v1/pods") == ([{"n": 1}, {"n": 2}], "7")
            assert await client.list_read("/api/v1/pods", lambda found: found["n"]) == ([1, 2], "7")

    asyncio.run(run())


def test_the_fence_stands_between_token_and_request() -> None:
    sent = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal sent
        sent += 1
        return web.json_response({})

    def fence() -> None:
        raise UnreachableError("not leading")

    async def run() -> None:
        async with a_client(answer, Renewing()) as client:
            with pytest.raises(UnreachableError, match="not leading"):
                await client.request("POST", "/x", body={}, before_send=fence)

    asyncio.run(run())
    assert sent == 0


def test_many_requests_a_few_at_a_time() -> None:
    under_way = most = 0
    done: list[int] = []

    async def one(n: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(n)

    asyncio.run(for_each(range(50), one, at_once=4))
    assert sorted(done) == list(range(50))
    assert most == 4

    async def fails(n: int) -> None:
        raise KubeError(500, "Internal", str(n))

    with pytest.raises(KubeError, match="0"):
        asyncio.run(for_each(range(50), fails, at_once=4))


def test_a_closed_client_says_so() -> None:
    from pilotage.kube.access import Access

    async def run() -> None:
        with pytest.raises(UnreachableError, match="closed"):
            await Client(Access("http://127.0.0.1:1", None)).get("/")

    asyncio.run(run())


def test_the_fence_is_asked_when_the_connection_is_there() -> None:
    """A request that waits for a connection was allowed when it began, and is not when it could be sent."""
    answered, allowed, arrived = asyncio.Event(), True, list[str]()

    async def answer(request: web.Request) -> web.Response:
        arrived.append(request.path)
        await answered.wait()
        return web.json_response({})

    class LostError(PilotageError):
        pass

    def fence() -> None:
        if not allowed:
            raise LostError("lost")

    async def run() -> None:
        nonlocal allowed
        async with a_client(answer) as client:
            requests = [
                asyncio.create_task(client.request("POST", f"/{number}", body={}, before_send=fence))
                for number in range(MAX_CONNECTIONS + 1)
            ]
            await until(lambda: len(arrived) == MAX_CONNECTIONS, "all connections are in use")
            allowed = False
            answered.set()
            outcomes = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [dict] * MAX_CONNECTIONS + [LostError]
        assert len(arrived) == MAX_CONNECTIONS

    asyncio.run(run())
