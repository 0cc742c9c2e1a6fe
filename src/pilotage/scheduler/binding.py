"""What happens after a decision: the binding is written, and confirmed or forgotten. Many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from pilotage.kube.binding import Binder, Result
from pilotage.kube.cache import ClusterCache
from pilotage.kube.errors import EndedError, KubeError, UnreachableError
from pilotage.kube.lease import NotLeadingError
from pilotage.kube.many import first_of
from pilotage.kube.podview import PodView
from pilotage.model.clock import Clock
from pilotage.model.outcome import Scheduled
from pilotage.scheduler.metrics import Metrics
from pilotage.scheduler.queue import Entry, Queue

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # between two questions about a binding whose reply was lost
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
    _begun: int = 0
    _fault: BaseException | None = None

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)
        self._reports = asyncio.Semaphore(REPORTS_AT_ONCE)
        self._ending = asyncio.Event()
        self.room = asyncio.Event()  # set while another binding may begin
        self._count(0)

    def expect_alive(self) -> None:
        """Raises what ended a task that should not have ended so: its pod would stay assumed for ever."""
        if self._fault is not None:
            raise EndedError("writing a decision", self._fault) from self._fault

    def begin(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None = None) -> None:
        self._count(1)
        self.start(self._bind(entry, outcome, annotations))

    def _count(self, more: int) -> None:
        self._begun += more
        if self._begun < self.at_once:
            self.room.set()
        else:
            self.room.clear()

    def report(self, entry: Entry, message: str) -> None:
        """Tells the cluster why a pod waits."""
        self.start(self._report(entry, message))

    async def finish(self) -> None:
        """Returns when nothing is under way. What is not known by then is not waited for."""
        self._ending.set()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._ending.clear()

    def start(self, work: Coroutine[None, None, object]) -> None:
        """In a task that `finish` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()

    async def _bind(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None) -> None:
        try:
            async with self._places:
                await self._write(entry, outcome, annotations)
        finally:
            self._count(-1)

    async def _write(self, entry: Entry, outcome: Scheduled, annotations: dict[str, str] | None) -> None:
        pod = entry.pod
        try:
            result = await self.binder.bind(pod, outcome.node, outcome.devices, annotations)
        except NotLeadingError:
            self.cache.forget(pod.uid)
            self.queue.put_back(entry)
            self.metrics.bindings.labels("fenced").inc()
            return
        if result == "unknown":
            result = await self._found_out(pod, outcome.node)
        self.metrics.bindings.labels(result).inc()
        if result == "unknown":
            return  # the process ends: who comes next reads what became of it
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

    async def _found_out(self, pod: PodView, node: str) -> Result:
        """What came of a binding whose reply was lost. Until somebody can tell, its room stays taken."""
        self.on_problem(f"{pod.key}: whether it was bound to {node} is not known; it is asked again and again")
        result: Result = "unknown"
        pause = FIRST_PAUSE
        while result == "unknown" and not self._ending.is_set():
            await first_of(self._ending, timeout=pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            result = await self.binder.look_up(pod, node)
        return result

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
