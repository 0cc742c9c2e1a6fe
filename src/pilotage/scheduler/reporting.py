"""Why pods wait, told to the cluster: the newest message of each, and only while it waits.

Bindings go first: a few reports at a time. Those that have to wait are kept by pod, so there are never more than pods
that wait, and what is not true any more when its turn comes is not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from pilotage.kube.binding import Binder
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.lease import NotLeadingError
from pilotage.scheduler.queue import Entry, Queue
from pilotage.scheduler.tasks import Tasks

AT_ONCE = 8


@dataclass
class Reports:
    """Conditions and events of pods that do not fit."""

    binder: Binder
    queue: Queue
    tasks: Tasks
    on_problem: Callable[[str], None] = lambda text: None
    _waiting: dict[str, None] = field(default_factory=dict)  # uids, the oldest first
    _writing: dict[str, asyncio.Event] = field(default_factory=dict)
    _writers: int = 0

    def tell(self, entry: Entry) -> None:
        """Its message, as soon as it is its turn; at most once."""
        if entry.message != entry.told:
            self._waiting[entry.pod.uid] = None
            if self._writers < AT_ONCE:
                self._writers += 1
                self.tasks.start(self._write())

    async def written(self, uid: str) -> None:
        """Returns when nothing is being written about the pod: a binding must not be overtaken by "it fits nowhere"."""
        event = self._writing.get(uid)
        if event is not None:
            await event.wait()

    def drop(self) -> None:
        """What has not been begun is left out: the process ends."""
        self._waiting.clear()

    async def told(self, telling: Coroutine[None, None, None]) -> bool:
        """Whether it was written, or nobody is left to be told. What is lost here is no reason to stop."""
        try:
            await telling
        except (KubeError, UnreachableError, NotLeadingError) as error:
            if isinstance(error, KubeError) and error.status == 404:  # the pod or its namespace is gone
                return True
            self.on_problem(str(error))
            return False
        return True

    async def _write(self) -> None:
        try:
            while self._waiting:
                uid = next(iter(self._waiting))
                del self._waiting[uid]
                entry = self.queue.waiting(uid)
                if entry is not None and entry.message != entry.told and uid not in self._writing:
                    await self._write_one(entry)
        finally:
            self._writers -= 1

    async def _write_one(self, entry: Entry) -> None:
        uid, message = entry.pod.uid, entry.message
        entry.told = message
        self._writing[uid] = asyncio.Event()
        try:
            told = await self.told(self.binder.tell_unschedulable(entry.pod, message))
        finally:
            self._writing.pop(uid).set()
        now = self.queue.get(uid)  # a gang that was tried meanwhile has other entries
        if now is None:
            return
        if not told and now.told == message:
            now.told = ""  # the next attempt tells it; at once would be in vain again, and without end
        if now.message != message:
            self.tell(now)
