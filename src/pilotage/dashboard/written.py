"""What a scheduler of ours wrote on a pod when it bound it. Anybody can write it: it is checked, and only shown."""

from __future__ import annotations

from typing import Any

import orjson

from pilotage.dashboard.source import Judgement

ANNOTATION = "pilotage/decision"
MAX_BYTES = 64 * 1024
MOST = 50  # entries of a list, characters are bounded by the above


def read_written(annotations: dict[str, str], node: str) -> Judgement | None:
    """None where nothing was written, or nothing that can be shown."""
    text = annotations.get(ANNOTATION)
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("policy"), str) or found.get("node") != node:
        return None
    candidates = found.get("candidates")
    return Judgement(
        policy=found["policy"],
        node=node,
        verdict=str(found.get("why") or ""),
        best=tuple((name, float(total)) for name, total in _pairs(found.get("best"))),
        candidates=candidates if isinstance(candidates, int) else 0,
        filtered=tuple((name, int(count)) for name, count in _pairs(found.get("reasons"))),
    )


def _pairs(value: Any) -> list[tuple[str, float]]:
    """Of a text and a number; what is none is left out."""
    if not isinstance(value, list):
        return []
    return [
        (entry[0], entry[1])
        for entry in value[:MOST]
        if isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and isinstance(entry[1], int | float)
    ]
