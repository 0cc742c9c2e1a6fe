"""What happens after a decision: the binding is written, and confirmed or forgotten. Many at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pilotage.kube.binding import Binder, Result
from pilotage.kube.cache import ClusterCache
from pilotage.kube.lease import NotLeadingError
from pilotage.kube.many import first_of
from pilotage.kube.podview import PodView
from pilotage.model.clock import Clock
from pilotage.model.outcome import Scheduled
from pilotage.scheduler.metrics import Metrics
from pilotage.scheduler.queue import Entry, Queue
from pilotage.scheduler.reporting import Reports

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # between two questions about a binding whose reply was lost
AT_ONCE = 32  # bindings under way


@dataclass
class Bindings:
    """Writes decisions to the API server."""

    binder: Binder
    cache: ClusterCache
    queue: Queue
    metrics: Metrics
    clock: Clock
    reports: Reports
    at_once: int = AT_ONCE
    bound: int = 0
    _begun: int = 0

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)
        self._ending = asyncio.Event()
        self.room = asyncio.Event()  # set while another binding may begin
        self._count(0)

    def begin(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None = None) -> None:
        self._count(1)
        self.reports.tasks.start(self._bind(entry, outcome, annotations))

    def _count(self, more: int) -> None:
        self._begun += more
        if self._begun < self.at_once:
            self.room.set()
        else:
            self.room.clear()

    async def finish(self) -> None:
        """Returns when nothing is under way. What is not known by then is not waited for."""
        self._ending.set()
        self.reports.drop()
        await self.reports.tasks.finish()
        self._ending.clear()

    async def _bind(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None) -> None:
        try:
            async with self._places:
                await self._write(entry, outcome, annotations)
        finally:
            self._count(-1)

    async def _write(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None) -> None:
        pod = entry.pod
        await self.reports.written(pod.uid)
        try:
            result = await self.binder.bind(pod, outcome.node, outcome.devices, annotations)
        except NotLeadingError:
            self._give_back(pod)
            self.queue.put_back(entry)
            self.metrics.bindings.labels("fenced").inc()
            return
        if result == "unknown":
            result = await self._found_out(pod, outcome.node)
        self.metrics.bindings.labels(result).inc()
        if result == "unknown":
            return  # the process ends: who comes next reads what became of it
        if result == "failed":
            self._give_back(pod)
            self.queue.pause(entry)
            return
        if result == "gone":
            self._give_back(pod)
        self.queue.remove(pod.uid)
        if result != "bound":
            return
        self.bound += 1
        self.metrics.sli_seconds.observe(self.clock.now() - entry.since)
        self.metrics.pod_attempts.observe(entry.attempts + 1)
        await self.reports.told(self.binder.tell_bound(pod, outcome.node))

    def _give_back(self, pod: PodView) -> None:
        """Its room is free again, for those that waited meanwhile."""
        if self.cache.state.assumed(pod.uid):
            self.cache.forget(pod.uid)
            self.cache.listener.room_made("binding failed")

    async def _found_out(self, pod: PodView, node: str) -> Result:
        """What came of a binding whose reply was lost. Until somebody can tell, its room stays taken."""
        self.reports.on_problem(f"{pod.key}: whether it was bound to {node} is not known; it is asked again and again")
        result: Result = "unknown"
        pause = FIRST_PAUSE
        while result == "unknown" and not self._ending.is_set():
            await first_of(self._ending, timeout=pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            result = await self.binder.look_up(pod, node)
        return result
