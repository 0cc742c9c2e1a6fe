"""Answers other than 200, as exceptions: each has a status and a reason that callers can act on."""

from __future__ import annotations

from collections.abc import Iterable

from pilotage.model.errors import PilotageError


class RefusedError(PilotageError):
    """A request that is not carried out."""

    def __init__(self, status: int, reason: str, message: str, unknown: list[str | int] | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.unknown = status, reason, unknown


def invalid(message: str) -> RefusedError:
    return RefusedError(400, "invalid", message)


def not_ready(message: str) -> RefusedError:
    return RefusedError(503, "not-ready", message)


def deadline() -> RefusedError:
    return RefusedError(408, "deadline", "not answered within the deadline")


def unknown_nodes(unknown: Iterable[str | int], of: int) -> RefusedError:
    listed = list(unknown)
    message = f"{len(listed)} of {of} candidates are not known"
    return RefusedError(409, "unknown-generation", message, listed)
