"""What happens after a decision: the binding is written, and confirmed or forgotten. Many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from pilotage.kube.binding import Binder
from pilotage.kube.cache import ClusterCache
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.lease import NotLeadingError
from pilotage.model.clock import Clock
from pilotage.model.outcome import Scheduled
from pilotage.scheduler.metrics import Metrics
from pilotage.scheduler.queue import Entry, Queue

AT_ONCE = 32  # bindings under way
REPORTS_AT_ONCE = 8  # conditions and events of pods that do not fit: bindings go first


@dataclass
class Bindings:
    """Writes decisions to the API server."""

    binder: Binder
    cache: ClusterCache
    queue: Queue
    metrics: Metrics
    clock: Clock
    on_problem: Callable[[str], None] = lambda text: None
    at_once: int = AT_ONCE
    bound: int = 0
    _tasks: set[asyncio.Task[object]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)
        self._reports = asyncio.Semaphore(REPORTS_AT_ONCE)

    async def room(self) -> None:
        """Returns when another binding may begin."""
        async with self._places:
            pass

    def begin(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None = None) -> None:
        self.start(self._bind(entry, outcome, annotations))

    def report(self, entry: Entry, message: str) -> None:
        """Tells the cluster why a pod waits."""
        self.start(self._report(entry, message))

    async def finish(self) -> None:
        """Returns when nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def start(self, work: Coroutine[None, None, object]) -> None:
        """In a task that `finish` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None) -> None:
        pod = entry.pod
        async with self._places:
            try:
                result = await self.binder.bind(pod, outcome.node, outcome.devices, annotations)
            except NotLeadingError:
                self.cache.forget(pod.uid)
                self.queue.put_back(entry)
                self.metrics.bindings.labels("fenced").inc()
                return
            self.metrics.bindings.labels(result).inc()
            if result == "failed":
                self.cache.forget(pod.uid)
                self.queue.pause(entry)
                return
            if result == "gone":
                self.cache.forget(pod.uid)
            self.queue.remove(pod.uid)
            if result != "bound":
                return
            self.bound += 1
            self.metrics.sli_seconds.observe(self.clock.now() - entry.since)
            self.metrics.pod_attempts.observe(entry.attempts + 1)
            await self.told(self.binder.tell_bound(pod, outcome.node))

    async def _report(self, entry: Entry, message: str) -> None:
        async with self._reports:
            await self.told(self.binder.tell_unschedulable(entry.pod, message))

    async def told(self, telling: Coroutine[None, None, None]) -> None:
        """An event that is lost is no reason to stop."""
        try:
            await telling
        except (KubeError, UnreachableError) as error:
            if not (isinstance(error, KubeError) and error.status == 404):  # the pod or its namespace is gone
                self.on_problem(str(error))
