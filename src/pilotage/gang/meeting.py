"""What a coordinator and its workers tell each other, and the two sides of it. Two ways to do it: `embedded` needs no
server, `zookeeper` uses one that is there.

A superstep: every task gets an order, its worker enters, and when all have entered the coordinator opens: the work
begins. A worker leaves with a report. The coordinator goes on when all have left. An order that failed is given again
with the next attempt, to the tasks that owe a report alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Protocol

from pilotage.model.errors import PilotageError

MOST_BYTES = 64 * 1024  # of one message


class MeetingError(PilotageError):
    """The other side is gone, or says what makes no sense."""

    exit_code = 1


@dataclass(frozen=True)
class Order:
    """Work of one task in one superstep; no size: the end."""

    superstep: int
    attempt: int
    size: float | None

    @property
    def ends(self) -> bool:
        return self.size is None

    @property
    def key(self) -> str:
        return f"{self.superstep}.{self.attempt}"

    def follows(self, other: Order) -> bool:
        """Whether it is newer: one that was said twice is carried out once."""
        return self.ends or (self.superstep, self.attempt) > (other.superstep, other.attempt)


@dataclass(frozen=True)
class Report:
    """What a worker says when it leaves."""

    task: str
    superstep: int
    attempt: int
    seconds: float
    code: int  # exit code of the work

    @property
    def key(self) -> str:
        return f"{self.superstep}.{self.attempt}"


BEFORE_ALL = Order(-1, 0, 0.0)
STOP = Order(-1, 0, None)


def as_text(message: Order | Report) -> str:
    return json.dumps({"kind": type(message).__name__, **asdict(message)})


def from_text(text: str | bytes) -> Order | Report:
    """A message from outside: bounded, of known kind, with the right types."""
    if len(text) > MOST_BYTES:
        raise MeetingError(f"a message of {len(text)} bytes")
    try:
        content = json.loads(text)
        kind = content.pop("kind")
        if kind == "Order":
            size = content["size"]
            return Order(int(content["superstep"]), int(content["attempt"]), None if size is None else float(size))
        if kind == "Report":
            numbers = (
                int(content["superstep"]),
                int(content["attempt"]),
                float(content["seconds"]),
                int(content["code"]),
            )
            return Report(str(content["task"]), *numbers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MeetingError(f"a message that cannot be read: {error}") from error
    raise MeetingError(f"a message of unknown kind {kind!r}")


class Meeting(Protocol):
    """The coordinator's side."""

    address: str  # what workers are told to find it

    def order(self, task: str, order: Order) -> None: ...

    def entered(self, key: str) -> set[str]:
        """Tasks whose workers wait for the superstep to be opened."""
        ...

    def open(self, key: str) -> None: ...

    def left(self, key: str) -> dict[str, Report]: ...

    def wait(self, seconds: float) -> None:
        """Until something may have changed, at most so long."""
        ...

    def forget(self, key: str) -> None:
        """Removes what is left of an attempt, orders that nobody has reported on too."""
        ...

    def close(self) -> None:
        """Leaves nothing behind."""
        ...


class Seat(Protocol):
    """A worker's side."""

    def take(self) -> Order:
        """The next order; MeetingError when the coordinator is gone."""
        ...

    def enter(self, order: Order) -> None:
        """Enters and waits until the superstep is opened."""
        ...

    def leave(self, report: Report) -> None: ...

    def gone(self) -> bool:
        """Whether the coordinator is no longer there; asked while the work runs."""
        ...

    def close(self) -> None: ...
