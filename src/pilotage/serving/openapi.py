"""The API's description, written from the types that requests are decoded into."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from pilotage.serving import wire

VERSION = "1.1.0"  # of the API: a field that is added is a new minor, anything else a new path
STATUSES = {
    "400": "something in the request is wrong; the message names it",
    "401": "no or a wrong certificate or token",
    "408": "not in time",
    "409": "candidates that are not known; send them with their state",
    "413": "too large",
    "431": "its head is too large",
    "429": "too many requests at once",
    "500": "the policy failed",
    "503": "not ready",
}
OPERATIONS: tuple[tuple[str, str, str, type, Any], ...] = (
    ("/v1/score", "score", "Score candidates for a pod", wire.ScoreRequest, wire.ScoreAnswer),
    ("/v1/suggest", "suggest", "The best node for a pod, and why", wire.SuggestRequest, wire.SuggestAnswer),
)
EXTENDER: tuple[tuple[str, str, str, type, Any], ...] = (
    ("/extender/filter", "filter", "Scheduler extender: filter", wire.ExtenderArgs, wire.FilterResult),
    (
        "/extender/prioritize",
        "prioritize",
        "Scheduler extender: prioritize",
        wire.ExtenderArgs,
        list[wire.HostPriority],
    ),
    ("/extender/bind", "bind", "Scheduler extender: bind", wire.BindingArgs, wire.BindingResult),
    ("/extender/preempt", "preempt", "Scheduler extender: preempt", wire.PreemptionArgs, wire.PreemptionResult),
)


@cache
def description(*, extender: bool) -> bytes:
    """OpenAPI 3.1 as JSON."""
    operations = OPERATIONS + (EXTENDER if extender else ())
    kinds = [kind for _, _, _, asked, answered in operations for kind in (asked, answered)]
    schemas, components = msgspec.json.schema_components(
        [*kinds, wire.Problem], ref_template="#/components/schemas/{name}", schema_hook=_raw
    )
    problem = schemas[-1]
    paths = {
        path: {"post": _operation(path, name, summary, (schemas[2 * i], schemas[2 * i + 1], problem))}
        for i, (path, name, summary, _, _) in enumerate(operations)
    }
    for path, name, summary in (
        ("/healthz", "healthy", "The process answers"),
        ("/readyz", "ready", "Requests will be answered; 503 and why when not"),
        ("/metrics", "metrics", "Figures for Prometheus"),
    ):
        paths[path] = {"get": {"operationId": name, "summary": summary, "responses": {"200": {"description": "yes"}}}}
    paths["/readyz"]["get"]["responses"]["503"] = {"description": "not now"}
    paths["/metrics"]["get"]["responses"]["401"] = {"description": STATUSES["401"]}
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilotage",
            "version": VERSION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "certificate": {"type": "mutualTLS"}},
        },
    }
    return msgspec.json.encode(whole)


def _operation(path: str, name: str, summary: str, schemas: tuple[Any, Any, Any]) -> dict[str, Any]:
    asked, answered, problem = schemas
    responses: dict[str, Any] = {"200": _content("done", answered)}
    known = path.startswith("/extender/")  # kube-scheduler is never asked to send more
    responses |= {s: _content(meaning, problem) for s, meaning in STATUSES.items() if s != "409" or not known}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": responses,
    }


def _content(meaning: str, schema: Any) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


def _raw(kind: type) -> dict[str, Any]:
    if kind is msgspec.Raw:  # a node object, handed back as it came
        return {"type": "object", "properties": {"metadata": {"type": "object"}}}
    raise NotImplementedError
