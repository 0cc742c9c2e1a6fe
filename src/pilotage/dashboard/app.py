"""The web application: the page, its stream of changes, answers to what is opened on it. It can be mounted anywhere:

dashboard = Dashboard(source, clock)
app = Starlette(routes=[Mount("/dashboard", dashboard.app)])
async with dashboard.looking(): ...  # while the application runs
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import orjson
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pilotage.dashboard.access import COOKIE, Guard
from pilotage.dashboard.feed import Feed
from pilotage.dashboard.source import Source
from pilotage.model.clock import Clock

STATIC = Path(__file__).parent / "static"
MOST_PAGES = 64
COOKIE_SECONDS = 12 * 3600
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

Answer = Callable[[Request], Awaitable[Response]]


class Dashboard:
    """A page about one source."""

    def __init__(self, source: Source, clock: Clock, guard: Guard = Guard()) -> None:
        self.source, self.guard = source, guard
        self.feed = Feed(source, clock)
        routes = [
            Route("/", self._page),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/api/session", self._session, methods=["POST"]),
            Route("/api/events", self._guarded(self._events)),
            Route("/api/decisions/{number:int}", self._guarded(self._decision)),
            Route("/api/nodes/{name}", self._guarded(self._node)),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        self.app: ASGIApp = _WithHeaders(Starlette(routes=routes), guard)

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Keeps what the page shows up to date meanwhile."""
        task = asyncio.create_task(self.feed.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _guarded(self, answer: Answer) -> Answer:
        async def guarded(request: Request) -> Response:
            if not self.guard.allows(request):
                return _json({"problem": "a token is needed"}, 401)
            return await answer(request)

        return guarded

    async def _page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _healthz(self, request: Request) -> Response:
        return Response("ok", media_type="text/plain")

    async def _readyz(self, request: Request) -> Response:
        """A page that may be old is shown, with a line that says so; one of a cluster never seen is not worth it."""
        missing = self.source.overview().missing
        return Response(missing or "ok", 503 if missing else 200, media_type="text/plain")

    async def _session(self, request: Request) -> Response:
        """The token becomes a cookie."""
        if not self.guard.token or not self.guard.knows_token(request):
            return _json({"problem": "not the token"}, 401)
        answer = Response(status_code=204)
        answer.set_cookie(
            COOKIE,
            self.guard.cookie,
            max_age=COOKIE_SECONDS,
            path=f"{request.scope.get('root_path', '')}/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _events(self, request: Request) -> Response:
        if self.feed.pages >= MOST_PAGES:
            return _json({"problem": f"{MOST_PAGES} pages are open already"}, 503)
        # A page that begins anew after a closed connection cannot set the header: it says so in the address.
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return StreamingResponse(
            self.feed.follow(seen), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )

    async def _decision(self, request: Request) -> Response:
        found = self.source.explain(request.path_params["number"])
        if found is None:
            return _json({"problem": "this decision is not kept any more"}, 404)
        return _json(asdict(found))

    async def _node(self, request: Request) -> Response:
        found = self.source.pods_on(request.path_params["name"])
        if found is None:
            return _json({"problem": "there is no such node"}, 404)
        return _json([asdict(pod) for pod in found])


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


class _WithHeaders:
    """Puts the security headers on every answer, and turns away names that are not ours."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        if not self.guard.known_name(Request(scope)):
            refused = Response("this name is not ours", 421, media_type="text/plain")
            await refused(scope, receive, send_more)
            return
        await self.app(scope, receive, send_more)
