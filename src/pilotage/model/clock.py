"""Time. Nothing else in the program reads a clock, so that tests can put another one in its place.

Only measurements of how long something took (`seconds` of a run, benchmarks) read the processor's own counter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What may be asked about time."""

    def now(self) -> float:
        """Seconds from some beginning. Never goes back, and runs on while the machine is suspended."""
        ...

    def wall(self) -> datetime:
        """The date and time of day, UTC."""
        ...

    def wait(self, seconds: float) -> None:
        """Returns that much later; blocks the thread."""
        ...


class SystemClock:
    """The machine's own."""

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)  # a paused process must notice how long it was away

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class VirtualClock:
    """Stands still until it is moved."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def timestamp(moment: datetime, *, micro: bool = False) -> str:
    """RFC 3339 in UTC, as the API server writes it."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds")
    return f"{text}Z"


def parse_timestamp(text: str) -> datetime:
    """What the API server wrote: RFC 3339, with or without parts of a second."""
    return datetime.fromisoformat(text).astimezone(UTC)
