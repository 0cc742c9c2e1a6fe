"""Structured logs: one JSON object per line."""

from __future__ import annotations

import logging
import sys

import orjson

from pilotage.model.clock import Clock, timestamp

LOGGER = logging.getLogger("pilotage.serving")


class _JsonLines(logging.Formatter):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": timestamp(self._clock.wall(), micro=True),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            entry["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
        return orjson.dumps(entry, default=str).decode()


def start_logging(level: str, clock: Clock) -> None:
    """To standard error; the server's own warnings in the same form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(clock))
    for name in (LOGGER.name, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == LOGGER.name else logging.WARNING)


def log(level: int, event: str, **fields: object) -> None:
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})
