"""Bindings as the API server wrote them down. Every one of them, also those that no watch has shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from pilotage.kube.client import Json

CREATED, CONFLICT = 201, 409


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the audit log says of the pods of one namespace."""

    nodes: dict[str, list[str]] = field(default_factory=dict)  # by uid, of each binding that succeeded, in order
    conflicts: int = 0  # refused because the pod was bound, gone or changed: harmless, but told

    @property
    def twice(self) -> set[str]:
        """Pods that were bound more than once."""
        return {uid for uid, nodes in self.nodes.items() if len(nodes) > 1}


def read_bindings(log: Path, namespace: str) -> Bindings:
    nodes: dict[str, list[str]] = {}
    answers: Counter[int] = Counter()
    for entry in _entries(log):
        about = entry.get("objectRef") or {}
        if about.get("namespace") != namespace or about.get("subresource") != "binding":
            continue
        code = int((entry.get("responseStatus") or {}).get("code") or 0)
        answers[code] += 1
        if code == CREATED:
            body = entry.get("requestObject") or {}
            uid = (body.get("metadata") or {}).get("uid") or about.get("uid") or f"name/{about.get('name')}"
            nodes.setdefault(uid, []).append((body.get("target") or {}).get("name") or "")
    return Bindings(nodes, answers[CONFLICT])


def _entries(log: Path) -> Iterator[Json]:
    """A line that a killed API server left half-written is passed over: the final state tells what it was about."""
    with log.open("rb") as stream:
        for line in stream:
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(entry, dict):
                yield entry
