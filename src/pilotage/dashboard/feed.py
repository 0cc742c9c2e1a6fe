"""One stream of changes for all pages: each is made once, numbered, kept for a while, and sent to whoever lacks it.

A page says which number it has seen. It gets the changes since then or, when they are no longer kept or come from
another process, everything. Nothing is queued per page: one that reads slowly costs no memory. At most one message per
`TICK_SECONDS` is made, however much happens.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from pilotage.dashboard.curves import Curves
from pilotage.dashboard.rows import NodeRows, Row, changes_of, decision_row, pending_reasons, pending_rows
from pilotage.dashboard.source import Source
from pilotage.dashboard.tally import Tally
from pilotage.model.clock import Clock

TICK_SECONDS = 0.5
UPDATES_KEPT = 120  # a minute, for pages that lost their connection
DECISIONS_KEPT = 400
ALIVE_SECONDS = 15.0  # something is sent at least so often, so that both ends notice a dead connection
RETRY_MILLISECONDS = 2000


class Update(NamedTuple):
    """Changes that lead to the state of this number."""

    number: int
    message: bytes


@dataclass
class Feed:
    """Looks at a source again and again."""

    source: Source
    clock: Clock
    tick_seconds: float = TICK_SECONDS
    instance: str = field(default_factory=lambda: secrets.token_hex(6))
    number: int = 0
    pages: int = 0  # that follow
    _updates: deque[Update] = field(default_factory=lambda: deque(maxlen=UPDATES_KEPT))

    def __post_init__(self) -> None:
        self._nodes, self._curves, self._tally = NodeRows(), Curves(), Tally()
        self._pending: dict[str, Row] = {}
        self._sides: dict[str, Row] = {}
        self._about: dict[str, object] = {"title": "", "shadow": "", "problem": "", "waiting": 0, "reasons": []}
        self._decisions: deque[Row] = deque(maxlen=DECISIONS_KEPT)
        self._last_decision = 0
        self._ended = False
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                try:
                    self.look()
                except Exception as error:  # the page says so; the process it runs in has other things to do
                    self._tell_problem(f"{type(error).__name__}: {error}")
                await asyncio.sleep(self.tick_seconds)
        finally:
            self.end()

    def end(self) -> None:
        """Lets go of all pages."""
        self._ended = True
        self._moved.set()

    def look(self) -> None:
        """Takes in what has happened since the last look."""
        now = self.clock.wall().timestamp()
        update: dict[str, object] = {}
        overview, table, waiting = self.source.overview(), self.source.nodes(), self.source.pending()
        if changed := self._nodes.take(table):
            update["nodes"] = changed
        rows = pending_rows(waiting)
        if changed := changes_of(self._pending, rows):
            update["pending"] = changed
        self._pending = rows
        if decisions := self._new_decisions():
            update["decisions"] = decisions
        sides = self._tally.rows(overview.policies)
        if changed := changes_of(self._sides, sides):
            update["policies"] = changed
        self._sides = sides
        if self._curves.due(now):
            update["curves"] = [self._curves.take(now, table, len(waiting), self._tally, overview.figures)]
        about: dict[str, object] = {
            "title": overview.title,
            "shadow": overview.shadow,
            "problem": overview.problem,
            "waiting": len(waiting),
            "reasons": pending_reasons(waiting),
        }
        if about != self._about:
            update["about"] = self._about = about
        if update:
            self._publish({"time": now, **update})

    def _tell_problem(self, problem: str) -> None:
        if self._about.get("problem") != problem:
            self._about = {**self._about, "problem": problem}
            self._publish({"time": self.clock.wall().timestamp(), "about": self._about})

    def _new_decisions(self) -> list[Row]:
        found = self.source.decisions(self._last_decision)
        for decision in found:
            self._tally.take(decision)
            self._last_decision = decision.number
        rows = [decision_row(decision) for decision in found[-DECISIONS_KEPT:]]
        self._decisions.extend(rows)
        return rows

    def _publish(self, update: dict[str, object]) -> None:
        self.number += 1
        self._updates.append(Update(self.number, self._message("update", update)))
        self._moved.set()
        self._moved = asyncio.Event()

    def _message(self, kind: str, content: dict[str, object]) -> bytes:
        data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
        return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), f"{self.instance}.{self.number}".encode(), data)

    def state(self) -> bytes:
        """Everything, as one message."""
        return self._message(
            "state",
            {
                "time": self.clock.wall().timestamp(),
                "nodes": {"set": list(self._nodes.rows.values())},
                "pending": {"set": list(self._pending.values())},
                "decisions": list(self._decisions),
                "policies": {"set": list(self._sides.values())},
                "curves": list(self._curves.samples),
                "about": self._about,
            },
        )

    def since(self, number: int) -> list[bytes]:
        """What a page that has seen `number` lacks."""
        if number == self.number:
            return []
        first = self._updates[0].number if self._updates else self.number + 1
        if not first - 1 <= number < self.number:
            return [self.state()]
        return [update.message for update in self._updates if update.number > number]

    async def follow(self, last_seen: str) -> AsyncGenerator[bytes, None]:
        """Messages for one page, until it goes or the feed ends."""
        self.pages += 1
        try:
            yield b"retry: %d\n\n" % RETRY_MILLISECONDS
            number = self._number_of(last_seen)
            while not self._ended:
                moved = self._moved
                messages, number = self.since(number), self.number
                for message in messages:
                    yield message
                try:
                    async with asyncio.timeout(ALIVE_SECONDS):
                        await moved.wait()
                except TimeoutError:
                    yield b": alive\n\n"
        finally:
            self.pages -= 1

    def _number_of(self, last_seen: str) -> int:
        instance, _, number = last_seen.partition(".")
        return int(number) if instance == self.instance and number.isdecimal() and len(number) < 16 else -1
