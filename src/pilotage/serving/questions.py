"""Questions as the service is asked them: limits, who may ask, and how answers and refusals are written.

This is an ASGI application of its own, as kube-scheduler waits for every answer; what people and probes ask for is in
`app`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from pilotage.model.errors import PolicyError
from pilotage.serving.logs import log
from pilotage.serving.metrics import Metrics
from pilotage.serving.problems import RefusedError, deadline, invalid
from pilotage.serving.security import Gate
from pilotage.serving.wire import Problem

JSON = "application/json"
NOT_ALLOWED = "method-not-allowed"
UNREAD = (401, 408, 413, 429)  # may come before the whole body did
HEADERS = {401: (b"www-authenticate", b"Bearer"), 405: (b"allow", b"POST")}

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body
GONE: Answer = (408, [], b"")  # to somebody who does not listen any more


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    requests: int = 64  # at a time
    bytes_in_flight: int = 256 * 1024 * 1024


@dataclass(frozen=True)
class Question:
    """What a path stands for."""

    verb: str
    decoder: msgspec.json.Decoder[Any]
    do: Callable[[Any], Any | Awaitable[Any]]
    extender: bool

    @classmethod
    def of(cls, verb: str, kind: type, do: Callable[[Any], Any | Awaitable[Any]], *, extender: bool) -> Question:
        return cls(verb, msgspec.json.Decoder(kind), do, extender)


@dataclass
class Answering:
    """Carries questions out."""

    metrics: Metrics
    gate: Gate
    limits: Limits = Limits()
    _requests: int = 0
    _bytes: int = 0

    async def answer(self, question: Question, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            status, headers, body = await self._answer(question, scope, receive)
        else:
            error = RefusedError(405, NOT_ALLOWED, f"{scope['method']} {scope['path']}: {NOT_ALLOWED}")
            status, headers, body = refusal(error)
        headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body)), *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, question: Question, scope: Scope, receive: Receive) -> Answer:
        arrived = scope["state"].get("arrived", perf_counter())
        reason, uid = "error", ""
        try:
            self.let_in(scope, extender=question.extender)
            with self._counted():
                args = self._decoded(await self._body(receive), question)
                uid = _uid(args)
                until = arrived + args.deadline_ms / 1000 if hasattr(args, "deadline_ms") else None
                _expect_time(until)
                result = question.do(args)
                if isinstance(result, Awaitable):
                    async with asyncio.timeout(self.limits.answer_seconds):
                        result = await result
                content = msgspec.json.encode(result)
                _expect_time(until)
            reason = "ok"
            return 200, [], content
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
            return GONE
        except Exception:
            logging.getLogger("uvicorn.error").exception("a question could not be answered")
            return refusal(RefusedError(500, reason, f"POST {scope['path'][:200]}: {reason}"))
        finally:
            seconds = perf_counter() - arrived
            self.metrics.requests.labels(question.verb, reason).inc()
            self.metrics.seconds.labels(question.verb).observe(seconds)
            level = logging.DEBUG if reason == "ok" else logging.WARNING
            log(level, question.verb, uid=uid, outcome=reason, milliseconds=round(1000 * seconds, 3))

    def let_in(self, scope: Scope, *, extender: bool) -> None:
        state = scope["state"]
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        self.gate.let_in(
            certificate=state.get("certificate"),
            local=state.get("local", False),
            authorization=None if shown is None else shown.decode("latin-1"),
            extender=extender,
        )

    @contextmanager
    def _counted(self) -> Iterator[None]:
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

    async def _body(self, receive: Receive) -> bytes:
        taken, chunks, more = 0, [], True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    taken += len(chunk)
                    self._bytes += len(chunk)
                    if taken > self.limits.body_bytes:
                        raise RefusedError(413, "too-large", f"expected at most {self.limits.body_bytes} bytes")
                    if self._bytes > self.limits.bytes_in_flight:
                        raise RefusedError(429, "busy", "too much is being received at once")
                    chunks.append(chunk)
            return b"".join(chunks)
        finally:
            self._bytes -= taken

    def _decoded(self, body: bytes, question: Question) -> Any:
        try:
            return question.decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise invalid(str(error)[:1000]) from error


def refusal(error: RefusedError) -> Answer:
    headers = [pair for pair in (HEADERS.get(error.status),) if pair is not None]
    if error.status in UNREAD:
        headers.append((b"connection", b"close"))  # the rest of the body may be on its way: it is not the next request
    return error.status, headers, msgspec.json.encode(Problem(error.reason, str(error), error.unknown))


def _expect_time(until: float | None) -> None:
    if until is not None and perf_counter() > until:
        raise deadline()


def _uid(args: Any) -> str:
    pod = getattr(args, "pod", None) or getattr(args, "Pod", None)
    return pod.metadata.uid if pod is not None else getattr(args, "PodUID", "")
