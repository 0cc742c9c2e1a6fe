"""Tasks that nobody waits for one by one: they are waited for at the end, and one that fails is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field

from pilotage.kube.errors import EndedError


@dataclass
class Tasks:
    """Of one scheduler: what it writes to the API server."""

    _under_way: set[asyncio.Task[object]] = field(default_factory=set)
    _fault: BaseException | None = None

    def start(self, work: Coroutine[None, None, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def expect_alive(self) -> None:
        """Raises what ended a task that should not have ended so: its pod would be assumed, or silent, for ever."""
        if self._fault is not None:
            raise EndedError("writing a decision", self._fault) from self._fault

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()
