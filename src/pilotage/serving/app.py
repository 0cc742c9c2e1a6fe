"""The service as an ASGI application: routes, limits, and how answers and refusals are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from pilotage.model.errors import PolicyError
from pilotage.serving import wire
from pilotage.serving.extender import Extender
from pilotage.serving.logs import log
from pilotage.serving.metrics import Metrics
from pilotage.serving.openapi import description
from pilotage.serving.problems import RefusedError, deadline, invalid
from pilotage.serving.security import Gate
from pilotage.serving.v1 import Api

JSON = "application/json"
UNREAD = (401, 408, 413, 429)  # may come before the whole body did
REASONS = {404: "not-found", 405: "method-not-allowed", 500: "error"}


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    requests: int = 64  # at a time
    bytes_in_flight: int = 256 * 1024 * 1024


@dataclass
class Service:
    """What the routes need."""

    api: Api
    extender: Extender | None
    metrics: Metrics
    gate: Gate
    ready: Callable[[], dict[str, str]]  # part -> why it is not ready; empty = ready
    details: Callable[[bool], dict[str, object]] = lambda known: {}  # for /readyz, beside that; more for known callers
    limits: Limits = Limits()
    _requests: int = 0
    _bytes: int = 0
    _decoders: dict[type, msgspec.json.Decoder[Any]] = field(default_factory=dict)

    # Carrying out one request

    async def answer(
        self, request: Request, verb: str, kind: type, do: Callable[[Any], Any | Awaitable[Any]], *, extender: bool
    ) -> Response:
        state = request.scope["state"]
        arrived = state.get("arrived", perf_counter())
        reason, uid = "error", ""
        try:
            self._let_in(request, extender=extender)
            async with asyncio.timeout(self.limits.answer_seconds), self._counted():
                args = await self._read(request, kind)
                uid = _uid(args)
                until = arrived + args.deadline_ms / 1000 if hasattr(args, "deadline_ms") else None
                _expect_time(until)
                result = do(args)
                if isinstance(result, Awaitable):
                    result = await result
                content = msgspec.json.encode(result)
                _expect_time(until)
            reason = "ok"
            return Response(content, media_type=JSON)
        except RefusedError as error:
            reason = error.reason
            return refusal(error)
        except PolicyError as error:
            reason = "policy-failed"
            return refusal(RefusedError(500, reason, str(error)))
        except TimeoutError:
            reason = "deadline"
            return refusal(deadline())
        except ClientDisconnect:
            reason = "gone"
            return Response(status_code=408)
        finally:
            seconds = perf_counter() - arrived
            self.metrics.requests.labels(verb, reason).inc()
            self.metrics.seconds.labels(verb).observe(seconds)
            level = logging.DEBUG if reason == "ok" else logging.WARNING
            log(level, verb, uid=uid, outcome=reason, milliseconds=round(1000 * seconds, 3))

    def _let_in(self, request: Request, *, extender: bool) -> None:
        state = request.scope["state"]
        self.gate.let_in(
            certificate=state.get("certificate"),
            local=state.get("local", False),
            authorization=request.headers.get("authorization"),
            extender=extender,
        )

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """One of the requests under way, from before its body is read until it is carried out."""
        if self._requests >= self.limits.requests:
            raise RefusedError(429, "busy", f"{self._requests} requests are under way")
        self._requests += 1
        self.metrics.in_flight.set(self._requests)
        try:
            yield
        finally:
            self._requests -= 1
            self.metrics.in_flight.set(self._requests)

    async def _read(self, request: Request, kind: type) -> Any:
        taken = 0
        try:
            chunks: list[bytes] = []
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in request.stream():
                    taken += len(chunk)
                    self._bytes += len(chunk)
                    if taken > self.limits.body_bytes:
                        raise RefusedError(413, "too-large", f"expected at most {self.limits.body_bytes} bytes")
                    if self._bytes > self.limits.bytes_in_flight:
                        raise RefusedError(429, "busy", "too much is being received at once")
                    chunks.append(chunk)
            return self._decoded(b"".join(chunks), kind)
        finally:
            self._bytes -= taken

    def _decoded(self, body: bytes, kind: type) -> Any:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid(str(error)[:1000]) from error

    # Routes

    def routes(self) -> list[Route]:
        routes = [
            self._route("/v1/score", "score", wire.ScoreRequest, self.api.score),
            self._route("/v1/suggest", "suggest", wire.SuggestRequest, self.api.suggest),
            Route("/openapi.json", self._openapi),
            Route("/healthz", _healthy),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
        ]
        extender = self.extender
        if extender is not None:
            for verb, kind, do in (
                ("filter", wire.ExtenderArgs, extender.filter),
                ("prioritize", wire.ExtenderArgs, extender.prioritize),
                ("bind", wire.BindingArgs, extender.bind),
                ("preempt", wire.PreemptionArgs, extender.preempt),
            ):
                routes.append(self._route(f"/extender/{verb}", verb, kind, do, extender=True))
        return routes

    def _route(self, path: str, verb: str, kind: type, do: Callable[[Any], Any], *, extender: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            return await self.answer(request, verb, kind, do, extender=extender)

        return Route(path, endpoint, methods=["POST"])

    async def _openapi(self, request: Request) -> Response:
        return Response(description(extender=self.extender is not None), media_type=JSON)

    async def _ready(self, request: Request) -> Response:
        """Anybody may ask whether; what exactly is wrong, and with whom, is for those who may ask the rest too."""
        try:
            self._let_in(request, extender=False)
            known = True
        except RefusedError:
            known = False
        obstacles = self.ready()
        shown = obstacles if known else {part: why.partition(":")[0] for part, why in obstacles.items()}
        body = {"ready": not obstacles, "obstacles": shown, **self.details(known)}
        return Response(msgspec.json.encode(body), 503 if obstacles else 200, media_type=JSON)

    async def _metrics(self, request: Request) -> Response:
        try:
            self._let_in(request, extender=False)
        except RefusedError as error:
            return refusal(error)
        self.metrics.ready.set(not self.ready())
        return Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def _healthy(request: Request) -> Response:
    return Response(b'{"healthy":true}', media_type=JSON)


def application(service: Service) -> Starlette:
    handlers = {HTTPException: _http_refusal, Exception: _http_refusal}
    return Starlette(routes=service.routes(), exception_handlers=handlers)


def refusal(error: RefusedError) -> Response:
    content = msgspec.json.encode(wire.Problem(error.reason, str(error), error.unknown))
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.status in UNREAD:
        headers["Connection"] = "close"  # the rest of the body may be on its way: it is not the next request
    return Response(content, error.status, headers, media_type=JSON)


async def _http_refusal(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    reason = REASONS.get(status, "invalid")
    content = msgspec.json.encode(wire.Problem(reason, f"{request.method} {request.url.path[:200]}: {reason}"))
    return Response(content, status, headers, media_type=JSON)


def _expect_time(until: float | None) -> None:
    if until is not None and perf_counter() > until:
        raise deadline()


def _uid(args: Any) -> str:
    pod = getattr(args, "pod", None) or getattr(args, "Pod", None)
    return pod.metadata.uid if pod is not None else getattr(args, "PodUID", "")
