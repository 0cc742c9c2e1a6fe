"""Pods that wait for a decision.

    add --> ACTIVE --pop--> (decided) --placed--> gone
              ^                |
              |                +--does not fit--> UNSCHEDULABLE --room was made, or it changed--+
              |                +--binding failed------------------------------------------+     |
              +--pause over-- PAUSED <----------------------------------------------------+<----+

The highest priority comes first, then the oldest pod. After each failed attempt a pod pauses longer, up to a limit.
When nodes come or change, nobody pauses: they may be what everybody waits for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice, takewhile

from pilotage.kube.pod_volumes import NO_VOLUMES
from pilotage.kube.podview import PodView
from pilotage.kube.storage import ClaimKey
from pilotage.model.clock import Clock

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
RETRY_SECONDS = 300.0  # after which a pod is tried again though nothing seems to have changed for it

NODES_PAUSE = 0.5  # seconds between two times that a change of nodes wakes everybody

Order = tuple[int, float, int, str]  # priority (negative), creation, version, uid


@dataclass(eq=False)
class Entry:
    """One pod and what happened to it so far."""

    pod: PodView
    order: Order
    since: float
    attempts: int = 0
    message: str = ""  # why it did not fit, last time
    told: str = ""  # the message that the cluster has been told
    ready_at: float = 0.0
    parked_at: float = 0.0

    def __lt__(self, other: Entry) -> bool:
        """Heaps compare entries only where a pod meets an old one of its own, which is passed over."""
        return False


def order_of(pod: PodView) -> Order:
    version = int(pod.version) if pod.version.isdigit() else 0
    return -pod.shape.priority, pod.created, version, pod.uid


@dataclass
class Queue:
    """Who is next."""

    clock: Clock
    first_pause: float = FIRST_PAUSE
    longest_pause: float = LONGEST_PAUSE
    _entries: dict[str, Entry] = field(default_factory=dict)  # all that wait, by uid
    _active: list[tuple[Order, Entry]] = field(default_factory=list)
    _paused: list[tuple[float, str, Entry]] = field(default_factory=list)
    _parked: dict[str, Entry] = field(default_factory=dict)  # the one that has waited longest is first
    _lonely: set[str] = field(default_factory=set)  # of the parked ones, those that others' coming may help; and more
    _claiming: set[str] = field(default_factory=set)  # of the parked ones, those with volumes; and more
    _taken: dict[str, Entry] = field(default_factory=dict)  # popped, not settled yet
    _all_at: float | None = None  # when all that wait become active, because nodes changed
    _all_since: float = float("-inf")  # when that happened last

    def add(self, pod: PodView) -> None:
        """A pod that waits, new or changed. A change of what it asks for is a reason to try again."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = Entry(pod, order_of(pod), self.clock.now())
            self._entries[pod.uid] = entry
            heapq.heappush(self._active, (entry.order, entry))
            return
        before, entry.pod = entry.pod, pod
        if pod.uid in self._parked and (before.shape, before.rules, before.labels) != (
            pod.shape,
            pod.rules,
            pod.labels,
        ):
            self._pause(self._parked.pop(pod.uid))

    def remove(self, uid: str) -> None:
        """A pod that waits no more. What is still in a heap is passed over when its turn comes."""
        self._entries.pop(uid, None)
        self._parked.pop(uid, None)
        self._lonely.discard(uid)
        self._claiming.discard(uid)
        self._taken.pop(uid, None)

    def pop(self) -> Entry | None:
        """The next pod to decide about; it must be settled by `remove`, `park` or `pause`."""
        self._wake()
        while self._active:
            _, entry = heapq.heappop(self._active)
            if self._entries.get(entry.pod.uid) is entry:
                self._taken[entry.pod.uid] = entry
                return entry
        return None

    def park(self, entry: Entry, message: str) -> None:
        """It fits nowhere."""
        entry.message = message
        if self._take_back(entry):
            entry.attempts += 1
            entry.parked_at = self.clock.now()
            entry.ready_at = entry.parked_at + self._length(entry)
            self._parked[entry.pod.uid] = entry
            if entry.pod.rules.look_for_others:
                self._lonely.add(entry.pod.uid)
            if entry.pod.rules.volumes is not NO_VOLUMES:
                self._claiming.add(entry.pod.uid)

    def pause(self, entry: Entry) -> None:
        """The attempt failed for a reason that is not the pod's."""
        if self._take_back(entry):
            entry.attempts += 1
            entry.ready_at = self.clock.now() + self._length(entry)
            self._pause(entry)

    def put_back(self, entry: Entry) -> None:
        """As if it had not been popped."""
        if self._take_back(entry):
            heapq.heappush(self._active, (entry.order, entry))

    def room_made(self) -> None:
        """Something changed in the cluster: all that did not fit may fit now."""
        for entry in self._parked.values():
            self._pause(entry)
        self._parked.clear()
        self._lonely.clear()
        self._claiming.clear()

    def pod_came(self, helps: Callable[[PodView], bool]) -> None:
        """A pod has a node now: those that did not fit may fit now if they look at where others are, and it `helps`."""
        parked = [self._parked[uid] for uid in self._lonely if uid in self._parked]
        helped = [entry for entry in parked if helps(entry.pod)]
        for entry in helped:
            self._pause(self._parked.pop(entry.pod.uid))
            self._lonely.discard(entry.pod.uid)

    def claim_changed(self, claim: ClaimKey | None) -> None:
        """A claim or its volume is another now, or (None) nodes can attach more: those that did not fit may fit now."""
        parked = [self._parked[uid] for uid in self._claiming if uid in self._parked]
        for entry in parked:
            if claim is None or claim in ((entry.pod.namespace, name) for name in entry.pod.rules.volumes.all_claims):
                self._pause(self._parked.pop(entry.pod.uid))
                self._claiming.discard(entry.pod.uid)

    def nodes_changed(self) -> None:
        """All that wait are tried again at once, whatever their pause; a burst of changes counts as one."""
        if self._all_at is None:
            self._all_at = max(self.clock.now(), self._all_since + NODES_PAUSE)

    def due_in(self) -> float | None:
        """Seconds until a pod becomes active by itself; None: never."""
        self._wake()
        if self._active:
            return 0.0
        moments = [self._paused[0][0]] if self._paused else []
        moments += [self._all_at] if self._all_at is not None and self._entries else []
        moments += [entry.parked_at + RETRY_SECONDS for entry in islice(self._parked.values(), 1)]
        return max(0.0, min(moments) - self.clock.now()) if moments else None

    def counts(self) -> dict[str, int]:
        """Under the names of kube-scheduler's queues."""
        paused = sum(self._entries.get(uid) is entry for _, uid, entry in self._paused)
        parked = len(self._parked)
        active = len(self._entries) - paused - parked - len(self._taken)
        return {"active": active, "backoff": paused, "unschedulable": parked}

    def entries(self) -> Iterable[Entry]:
        return self._entries.values()

    def get(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def waiting(self, uid: str) -> Entry | None:
        """None for a pod that is not here, or is being decided about or bound."""
        return None if uid in self._taken else self._entries.get(uid)

    def take(self, entry: Entry) -> Entry:
        """Pops this one, wherever it waits: a gang is decided about as a whole."""
        self._parked.pop(entry.pod.uid, None)
        # What the heaps hold of it is passed over: the entry is replaced by a copy that they do not know.
        fresh = Entry(entry.pod, entry.order, entry.since, entry.attempts, entry.message, entry.told)
        self._entries[entry.pod.uid] = self._taken[entry.pod.uid] = fresh
        return fresh

    def wake(self, uid: str) -> None:
        """One that did not fit becomes active at once: what it waited for has come."""
        entry = self._parked.pop(uid, None)
        if entry is not None:
            heapq.heappush(self._active, (entry.order, entry))

    def _take_back(self, entry: Entry) -> bool:
        """False when the pod was removed meanwhile."""
        return self._taken.pop(entry.pod.uid, None) is entry

    def _length(self, entry: Entry) -> float:
        doubled = self.first_pause * 2.0 ** min(entry.attempts - 1, 30)
        return min(doubled, self.longest_pause)

    def _pause(self, entry: Entry) -> None:
        heapq.heappush(self._paused, (entry.ready_at, entry.pod.uid, entry))

    def _wake(self) -> None:
        now = self.clock.now()
        if self._all_at is not None and now >= self._all_at:
            self._all_at, self._all_since = None, now
            for _, uid, entry in self._paused:
                if self._entries.get(uid) is entry:
                    heapq.heappush(self._active, (entry.order, entry))
            for entry in self._parked.values():
                heapq.heappush(self._active, (entry.order, entry))
            self._paused.clear()
            self._parked.clear()
        while self._paused and self._paused[0][0] <= now:
            _, uid, entry = heapq.heappop(self._paused)
            if self._entries.get(uid) is entry:
                heapq.heappush(self._active, (entry.order, entry))
        for entry in list(takewhile(lambda entry: now - entry.parked_at >= RETRY_SECONDS, self._parked.values())):
            del self._parked[entry.pod.uid]
            heapq.heappush(self._active, (entry.order, entry))
