"""One tree of errors. `PilotageError` is what the command line turns into a message and an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_COMPARED, MOST_LISTED = 10_000, 20  # known names in a hint: a trace may have a million pods


class PilotageError(Exception):
    """Base of every error a caller may want to catch."""

    exit_code = 2


class InputError(PilotageError):
    """Something given from outside is wrong. Says where, what, and what would be right."""

    def __init__(
        self,
        problem: str,
        *,
        file: object | None = None,
        row: int | None = None,
        field: str | None = None,
        expected: str | None = None,
    ) -> None:
        self.problem, self.file, self.row, self.field, self.expected = problem, file, row, field, expected
        places = [f"{file}" if file is not None else "", f"row {row}" if row is not None else "", field or ""]
        where = ", ".join(place for place in places if place)
        super().__init__((f"{where}: " if where else "") + problem + (f"; expected {expected}" if expected else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Sent between processes as a plain InputError: the message is made already."""
        return _input_error, (self.problem, self.file, self.row, self.field, self.expected)


def _input_error(
    problem: str, file: object | None, row: int | None, field: str | None, expected: str | None
) -> InputError:
    return InputError(problem, file=file, row=row, field=field, expected=expected)


class UnknownNameError(InputError):
    """A name that is not known, with the nearest known ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], **place: object) -> None:
        known = sorted(known)
        near = [other for other in known if name and name in other][:3]
        near = near or get_close_matches(name, known[:MOST_COMPARED], n=3, cutoff=0.5)
        some = ", ".join(known[:MOST_LISTED]) + (f" and {len(known) - MOST_LISTED} more" if known[MOST_LISTED:] else "")
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else f"known: {some}"
        super().__init__(f"unknown {kind} {name!r}; {hint}", **place)  # type: ignore[arg-type]


class StateError(PilotageError):
    """The cluster state was asked for a transition that does not exist (see ClusterState)."""


class PolicyError(PilotageError):
    """A policy broke its contract: wrong shape, not finite, changed its inputs, needs unknown features."""
