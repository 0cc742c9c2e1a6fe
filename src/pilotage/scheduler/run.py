"""The scheduler: informers -> cache -> decisions -> bindings, until it is told to stop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pilotage.kube.binding import Binder
from pilotage.kube.budgets import PATH as BUDGETS
from pilotage.kube.budgets import Budgets
from pilotage.kube.cache import ClusterCache, Listener
from pilotage.kube.client import Client
from pilotage.kube.filters import helped_by
from pilotage.kube.lease import Lease
from pilotage.kube.many import first_of
from pilotage.kube.mixture import Mixture
from pilotage.kube.podgroups import PodGroups
from pilotage.kube.podview import PodView
from pilotage.kube.readying import Readying, prepare
from pilotage.kube.storage import ClaimKey
from pilotage.kube.watch import Informer, Running, may_list, running
from pilotage.model.clock import Clock
from pilotage.model.constraints import Constraints
from pilotage.model.outcome import Failed, Outcome, Scheduled, Unschedulable, Wait
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.policies.journal import Attempt, Decision, Journal
from pilotage.scheduler.binding import AT_ONCE, Bindings
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.explaining import Explain, annotation
from pilotage.scheduler.following import Follow
from pilotage.scheduler.gangs import WAIT_SECONDS, Gangs
from pilotage.scheduler.making_room import RoomMaker
from pilotage.scheduler.metrics import Metrics
from pilotage.scheduler.preemption import Preemption
from pilotage.scheduler.queue import Entry, Queue
from pilotage.scheduler.reporting import Reports
from pilotage.scheduler.tasks import Tasks
from pilotage.scheduler.timing import p99

TURN = 8  # decisions before informers and bindings get their turn
IDLE_SECONDS = 1.0  # the longest wait for something to do


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scheduler runs."""

    seed: int = 0
    binds_at_once: int = AT_ONCE
    retry: bool = True  # False: a pod that does not fit is not tried again
    mix: WorkloadMix | None = None  # what policies expect; None: what is observed
    instance: str = "pilotage"
    pool: Constraints | None = None  # nodes that may be used; None: all
    preempt: bool = True  # whether pods of lower priority may be told to go
    gang_seconds: float = WAIT_SECONDS  # that a gang has to come together, where its group does not say
    explain: Explain = "annotation"  # where each decision says why; the journal has it in any case


@dataclass
class Scheduler:
    """One process: several profiles, one cluster."""

    client: Client
    profiles: Mapping[str, Policy]  # by schedulerName
    clock: Clock
    settings: Settings = Settings()
    lease: Lease | None = None
    on_problem: Callable[[str], None] = lambda text: None
    on_decision: Callable[[Decision], None] = lambda decision: None
    decision_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=100_000))  # of the newest decisions

    def __post_init__(self) -> None:
        settings = self.settings
        self.metrics = Metrics(self.client.calls)
        self.journal = Journal()
        self.queue = Queue(self.clock)
        self.groups = PodGroups(on_change=self._group_changed)
        listener = Listener(
            self._pod_waits,
            self._pod_settled,
            self._room_made,
            self._pod_came,
            self._overcommit,
            self._rejected,
            claim_changed=self._claim_changed,
        )
        self.cache = ClusterCache(listener, self.on_problem, pool=settings.pool)
        self.gangs = Gangs(self.cache, self.groups, self.clock, settings.gang_seconds)
        self.cycle = Cycle(self.cache, dict(self.profiles), settings.seed, self.gangs.around)
        self.mixture, self.readying = Mixture(self.cache, settings.mix), Readying(self.on_problem)
        check = self.lease.check if self.lease is not None else lambda: None
        binder = Binder(self.client, self.clock, settings.instance, check, self.on_problem)
        self.tasks = Tasks()
        self.reports = Reports(binder, self.queue, self.tasks, self.on_problem)
        self.bindings = Bindings(
            binder, self.cache, self.queue, self.metrics, self.clock, self.reports, settings.binds_at_once
        )
        preemption = Preemption(self.cache, Budgets(on_more=self._room_made), self.gangs)
        self.rooms = RoomMaker(preemption, binder, self.reports, self.metrics, self.on_problem, settings.preempt)
        self._term = 0  # of the lease, since when everything has been listed
        self._wake = asyncio.Event()
        self.synced = asyncio.Event()
        self._show()

    def _show(self) -> None:
        """Figures that are looked up when they are asked for: also while it does not lead, or is busy."""
        for name in self.queue.counts():
            self.metrics.pending.labels(name).set_function(partial(self._pending, name))
        self.metrics.overcommitted.set_function(lambda: self.cache.overcommitted)
        self.metrics.leads.set_function(lambda: self.lease is None or self.lease.leads)

    def _pending(self, queue: str) -> int:
        return self.queue.counts()[queue]

    # What the cache tells

    def _pod_waits(self, pod: PodView) -> None:
        if pod.scheduler not in self.profiles:
            return
        self.gangs.add(pod)  # when its turn comes, it takes those along that wait for it
        if self.cache.state.placement(pod.uid) is not None:
            return
        self.queue.add(pod)
        self._wake.set()

    def _pod_settled(self, pod: PodView) -> None:
        self.queue.remove(pod.uid)
        if pod.uid in self.cache.pods:
            self.gangs.add(pod)
        else:
            self.gangs.remove(pod)

    def _room_made(self, why: str) -> None:
        if not self.settings.retry:
            return
        if why.startswith("node"):
            self.queue.nodes_changed()
        else:
            self.queue.room_made()
        self._wake.set()

    def _pod_came(self, pod: PodView) -> None:
        if self.settings.retry:
            self.queue.pod_came(lambda waiting: helped_by(waiting, pod, self.cache.namespaces))
            self._wake.set()

    def _claim_changed(self, claim: ClaimKey | None) -> None:
        if self.settings.retry:
            self.queue.claim_changed(claim)
            self._wake.set()

    def _group_changed(self, namespace: str, group: str) -> None:
        for uid in self.gangs.members.get((namespace, group), ()):
            self.queue.wake(uid)
        self._wake.set()

    def _overcommit(self, pod: PodView, short: str) -> None:
        by = pod.scheduler or "somebody"
        self.on_problem(f"overcommit: {pod.key} was bound to {pod.node} by {by}, where this is short now: {short}")

    def _rejected(self, pod: str, reason: str) -> None:
        self.metrics.rejected.labels(reason).inc()
        self.on_problem(f"overcommit: {pod} was refused by its node ({reason})")

    # Running

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; what is under way then is finished.

        Raises EndedError, and sets `stop`, when something ends without which decisions would be made on old facts.
        """
        if self.lease is not None:
            self.lease.start()
        ending = asyncio.create_task(self._end_with(stop))
        try:
            informers = await self._informers()
            self._term = self.lease.term if self.lease is not None else 0
            async with running(informers, stop) as following:
                self.synced.set()
                await self._decide_until(stop, following)
                await self.bindings.finish()
        finally:
            ending.cancel()
            if self.lease is not None:
                await asyncio.to_thread(self.lease.stop)

    async def _end_with(self, stop: asyncio.Event) -> None:
        """Whoever waits for room to bind is woken: in an outage there would be none."""
        await stop.wait()
        self.bindings.room.set()

    async def _informers(self) -> list[Informer]:
        if self.rooms.enabled and not await may_list(self.client, BUDGETS):
            self.on_problem("preempts nobody: disruption budgets cannot be listed")
            self.rooms.enabled = False
        budgets = self.rooms.preemption.budgets if self.rooms.enabled else None
        return await Follow(self.client, self.cache, self.groups, budgets, self.on_problem).informers()

    def missing(self) -> str:
        """What keeps this process from deciding, "" for nothing; one that waits for its turn to lead misses nothing."""
        return "" if self.synced.is_set() else "the state of the cluster has not been read yet"

    async def _decide_until(self, stop: asyncio.Event, following: Running) -> None:
        turn = 0
        while not stop.is_set():
            if self.lease is not None and not await self._leads(self.lease, stop, following):
                continue
            self.tasks.expect_alive()
            if not self.bindings.room.is_set():
                await self.bindings.room.wait()  # for it alone: tasks that wait for several were felt in every binding
                continue
            entry = self.queue.pop()
            if entry is None:
                await self._idle(stop)
                continue
            prepare(self.cycle, self.mixture, self.readying, self.profiles)
            self._attempt(entry)
            turn += 1
            if turn % TURN == 0:
                await asyncio.sleep(0)

    async def _leads(self, lease: Lease, stop: asyncio.Event, following: Running) -> bool:
        """Whether this process may decide. When its turn begins, all is listed: who led before may have written more
        than our watches have told, for hours if nobody is at their other end."""
        if not lease.leads:
            lease.expect_alive()
            await first_of(stop, timeout=0.1)
            return False
        if self._term != lease.term:
            term = lease.term
            await following.list_again()
            self._term = term
            return False
        return True

    async def _idle(self, stop: asyncio.Event) -> None:
        for uid in self.gangs.newly_overdue():
            self.queue.wake(uid)
        for uid, message in self.gangs.news():
            waiting = self.queue.waiting(uid)
            if waiting is not None:
                waiting.message = message
                self.reports.tell(waiting)
        self._wake.clear()
        due = self.queue.due_in()
        if due is None or due > 0:
            await first_of(self._wake, stop, timeout=IDLE_SECONDS if due is None else min(due, IDLE_SECONDS))

    def succeed(self, profile: str, policy: Policy, ready: Policy, mix: WorkloadMix) -> None:
        """Another policy decides for a profile from now on, made ready for a mix of the nodes that are there."""
        self.profiles = {**self.profiles, profile: policy}
        self.readying.use(profile, policy, ready, mix)
        self.cycle.use(profile, ready)

    def figures(self) -> dict[str, float]:
        """What a benchmark wants to know of a run. Requests that wrote something count, lists and watches do not."""
        bound = self.bindings.bound
        writes = sum(n for kind, n in self.client.calls.items() if not kind.startswith(("GET ", "WATCH ")))
        return {
            "bound": bound,
            "decisions": self.cycle.decisions,
            "api_calls_per_pod": writes / bound if bound else 0.0,
            "decision_p99_ms": 1000 * p99(self.decision_seconds),
            "overcommitted": self.cache.overcommitted,
        }

    # Decisions

    def _attempt(self, entry: Entry) -> None:
        pod = entry.pod
        if pod.group and self.gangs.wanted(pod) != 1:
            self._attempt_gang(entry)
            return
        began = time.process_time()
        outcome = self.cycle.attempt(pod)
        victims: tuple[PodView, ...] = ()
        if isinstance(outcome, Unschedulable):
            outcome, victims = self.rooms.consider([pod], 1, outcome)
        self._settle(entry, outcome, time.process_time() - began, victims)

    def _attempt_gang(self, entry: Entry) -> None:
        """All of a gang that wait, together with the one whose turn it is."""
        pod = entry.pod
        missing = self.gangs.incomplete(pod)
        if missing:
            self._settle(entry, Wait(missing), 0.0)
            return
        entries = {pod.uid: entry}
        for other in self.gangs.waiting(pod):
            waiting = self.queue.get(other.uid)
            if waiting is not None and other.uid not in entries:
                entries[other.uid] = self.queue.take(waiting)
        began = time.process_time()
        pods = [one.pod for one in entries.values()]
        outcomes, victims = self._gang_outcomes(pods, self.gangs.wanted(pod) - self.gangs.placed(pod))
        seconds = (time.process_time() - began) / len(pods)
        for uid, outcome in outcomes.items():
            self._settle(entries[uid], outcome, seconds, victims)

    def _gang_outcomes(self, pods: list[PodView], wanted: int) -> tuple[Mapping[str, Outcome], tuple[PodView, ...]]:
        """One outcome for each; for those that do not fit together, the same."""
        pod = pods[0]
        outcomes = self.cycle.attempt_gang(pods, wanted)
        refused = outcomes[pod.uid]
        if any(isinstance(outcome, Scheduled) for outcome in outcomes.values()):
            self.gangs.whole(pod)
            return outcomes, ()
        if not isinstance(refused, Unschedulable):
            return outcomes, ()
        half = self.gangs.to_release(pod)
        if half:
            released = self.rooms.release(pod.group, half, self.gangs.limit(pod))
            return dict.fromkeys(outcomes, replace(refused, note=released)), tuple(half)
        refused, victims = self.rooms.consider(pods, max(1, wanted), refused)
        if wanted > 0 and self.gangs.overdue(pod) and not victims:
            late = f"gang {pod.group!r} timed out after {self.gangs.limit(pod):g} s"
            refused = replace(refused, note=f"{refused.note}; {late}" if refused.note else late)
        return dict.fromkeys(outcomes, refused), victims

    def _settle(self, entry: Entry, outcome: Outcome, seconds: float, victims: tuple[PodView, ...] = ()) -> None:
        decision = self._note(entry.pod, outcome, seconds, victims)
        match outcome:
            case Scheduled():
                self.bindings.begin(
                    entry, outcome, annotation(decision) if self.settings.explain == "annotation" else None
                )
            case Unschedulable():
                self.queue.park(entry, outcome.message)
                self.reports.tell(entry)
            case Wait(why):
                self.queue.park(entry, why)
                self.gangs.expect_news((entry.pod.namespace, entry.pod.group))
            case Failed(why):
                self.on_problem(f"{entry.pod.key}: {why}")
                self.queue.pause(entry)

    def _note(self, pod: PodView, outcome: Outcome, seconds: float, victims: tuple[PodView, ...]) -> Decision:
        if not isinstance(outcome, Wait):
            result = {Scheduled: "scheduled", Unschedulable: "unschedulable"}.get(type(outcome), "error")
            self.metrics.attempts.labels(result, pod.scheduler).inc()
            self.metrics.attempt_seconds.labels(result, pod.scheduler).observe(seconds)
            self.decision_seconds.append(seconds)
        attempt = Attempt(
            time=self.clock.wall().timestamp(),
            instance=self.settings.instance,
            profile=pod.scheduler,
            policy=self.profiles[pod.scheduler].name,
            uid=pod.uid,
            pod=pod.key,
            shape=pod.shape,
            gang=pod.group,
            seconds=seconds,
            victims=tuple(one.key for one in victims),
        )
        decision = self.journal.add(attempt, outcome)
        self.on_decision(decision)
        return decision
