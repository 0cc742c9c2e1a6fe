"""What a running scheduler tells over HTTP: figures for Prometheus, and its journal as JSON. For reading only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import orjson
from prometheus_client import CollectorRegistry, make_wsgi_app

from pilotage.model.errors import InputError
from pilotage.policies.journal import KEPT, Journal

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK = "127.0.0.1"
DECISIONS = "/decisions"


class _Quiet(WSGIRequestHandler):
    def log_message(self, *words: object) -> None:
        """Prometheus asks every few seconds: not worth a line each."""


def serve_status(port: int, registry: CollectorRegistry, journal: Journal) -> WSGIServer:
    """In a thread of its own, on loopback; `server.shutdown()` ends it."""
    try:
        server = make_server(LOOPBACK, port, pages(registry, journal), handler_class=_Quiet)
    except OSError as error:
        problem = f"port {port} cannot be used: {error.strerror}"
        raise InputError(problem, field="--metrics-port", expected="a free port") from error
    threading.Thread(target=server.serve_forever, name="status", daemon=True).start()
    return server


def pages(registry: CollectorRegistry, journal: Journal) -> WSGIApplication:
    """`/decisions?limit=100&after=NUMBER&pod=NAMESPACE/NAME`, everything else is metrics."""
    metrics: WSGIApplication = make_wsgi_app(registry)

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environment.get("PATH_INFO") != DECISIONS:
            return metrics(environment, start)
        try:
            body = _decisions(journal, parse_qs(str(environment.get("QUERY_STRING", ""))))
        except ValueError:
            return _reply(start, "400 Bad Request", {"error": "limit and after are whole numbers"})
        return _reply(start, "200 OK", body)

    return answer


def _decisions(journal: Journal, query: dict[str, list[str]]) -> object:
    limit, after = (int(query.get(name, [default])[0]) for name, default in (("limit", "100"), ("after", "0")))
    if "pod" in query:
        found = journal.of_pod(query["pod"][0])[: max(0, limit)]
    else:
        found = journal.newest(min(max(0, limit), KEPT), after)
    return {"added": journal.added, "decisions": [decision.as_dict() for decision in found]}


def _reply(start: Callable[..., object], status: str, body: object) -> list[bytes]:
    content = orjson.dumps(body)
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
    return [content]
