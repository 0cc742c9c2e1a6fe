"""The service as an ASGI application: questions by their paths, and what people, probes and Prometheus ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pilotage.serving import wire
from pilotage.serving.extender import Extender
from pilotage.serving.openapi import description
from pilotage.serving.problems import RefusedError
from pilotage.serving.questions import JSON, NOT_ALLOWED, Answering, Question, refusal
from pilotage.serving.v1 import Api

REASONS = {404: "not-found", 405: NOT_ALLOWED, 500: "error"}


@dataclass
class Service:
    """What is offered, and by whom it is answered."""

    api: Api
    extender: Extender | None
    answering: Answering
    ready: Callable[[], dict[str, str]]  # part -> why it is not ready; empty = ready
    details: Callable[[bool], dict[str, object]] = lambda known: {}  # for /readyz, beside that; more for known callers

    def __post_init__(self) -> None:
        self._questions = {
            "/v1/score": Question.of("score", wire.ScoreRequest, self.api.score, extender=False),
            "/v1/suggest": Question.of("suggest", wire.SuggestRequest, self.api.suggest, extender=False),
        }
        extender = self.extender
        if extender is not None:
            for verb, kind, do in (
                ("filter", wire.ExtenderArgs, extender.filter),
                ("prioritize", wire.ExtenderArgs, extender.prioritize),
                ("bind", wire.BindingArgs, extender.bind),
                ("preempt", wire.PreemptionArgs, extender.preempt),
            ):
                self._questions[f"/extender/{verb}"] = Question.of(verb, kind, do, extender=True)
        routes = [
            Route("/openapi.json", self._openapi),
            Route("/healthz", _healthy),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
        ]
        handlers = {HTTPException: _http_refusal, Exception: _http_refusal}
        self._others = Starlette(routes=routes, exception_handlers=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        question = self._questions.get(scope["path"])
        if question is not None:
            await self.answering.answer(question, scope, receive, send)
        else:
            await self._others(scope, receive, send)

    async def _openapi(self, request: Request) -> Response:
        return Response(description(extender=self.extender is not None), media_type=JSON)

    async def _ready(self, request: Request) -> Response:
        """Anybody may ask whether; what exactly is wrong, and with whom, is for those who may ask the rest too."""
        try:
            self.answering.let_in(request.scope, extender=False)
            known = True
        except RefusedError:
            known = False
        obstacles = self.ready()
        shown = obstacles if known else {part: why.partition(":")[0] for part, why in obstacles.items()}
        body = {"ready": not obstacles, "obstacles": shown, **self.details(known)}
        return Response(msgspec.json.encode(body), 503 if obstacles else 200, media_type=JSON)

    async def _metrics(self, request: Request) -> Response:
        try:
            self.answering.let_in(request.scope, extender=False)
        except RefusedError as error:
            status, headers, body = refusal(error)
            return Response(body, status, {name.decode(): value.decode() for name, value in headers}, media_type=JSON)
        metrics = self.answering.metrics
        metrics.ready.set(not self.ready())
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def _healthy(request: Request) -> Response:
    return Response(b'{"healthy":true}', media_type=JSON)


async def _http_refusal(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    reason = REASONS.get(status, "invalid")
    content = msgspec.json.encode(wire.Problem(reason, f"{request.method} {request.url.path[:200]}: {reason}"))
    return Response(content, status, headers, media_type=JSON)
