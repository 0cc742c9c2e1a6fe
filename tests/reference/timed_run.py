"""A naive simulation over time: whole lists are searched for what comes next; nothing is kept sorted or cached.

At one moment, in this order: departures, node events, retries, arrivals; whatever one of them brings about at the
same moment comes first again. A waiting pod is tried only after something was freed (or a node failed), by priority,
then arrival; once a pod has not fit, others of its shape are not tried in that round, nor when they arrive.

With retries, gangs run whole or not at all: a gang is tried when its last pod has arrived, pod after pod, and again in
the rounds of retries, as its first pod would be; when one does not fit, those before it are taken back. A gang that
loses a pod to a node waits again with all pods that have not finished. Without retries its pods are like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pilotage.model.cluster import Node
from pilotage.model.workload import FOREVER, Gang, Pod
from reference.choices import SlowPolicy, mask
from reference.machines import Machine, Mates
from reference.scores import random_unit


@dataclass
class SlowPod:
    pod: Pod
    state: str = "not arrived"
    node: int = -1  # by rank
    devices: int = 0
    placed_at: float | None = None
    ends_at: float = FOREVER
    restarts: int = 0


@dataclass
class SlowRun:
    nodes: Sequence[Node]  # in the order that breaks ties
    pods: Sequence[Pod]  # in order of arrival
    policy: SlowPolicy
    seed: int = 0
    retry: bool = True
    until: float = FOREVER
    node_events: Sequence[tuple[float, str, bool]] = ()
    machines: list[Machine] = field(init=False)
    book: list[SlowPod] = field(init=False)
    now: float = 0.0
    decisions: int = 0

    def __post_init__(self) -> None:
        self.machines = [Machine(node, rank) for rank, node in enumerate(self.nodes)]
        self.book = [SlowPod(pod) for pod in self.pods]
        self._events = sorted(self.node_events, key=lambda event: event[0])
        self._freed = False

    def run(self) -> None:
        while (moment := self._next_moment()) < FOREVER and moment <= self.until:
            self.now = max(self.now, moment)
            while self._one_thing():
                pass
        if self.until < FOREVER:
            self.now = max(self.now, self.until)

    def _next_moment(self) -> float:
        arrivals = [entry.pod.arrival for entry in self.book if entry.state == "not arrived"]
        departures = [entry.ends_at for entry in self.book if entry.state == "running"]
        events = [time for time, _, _ in self._events]
        return min([*arrivals, *departures, *events, FOREVER])

    def _one_thing(self) -> bool:
        """Does what is first due now; False when nothing is."""
        leaving = [(entry.ends_at, p) for p, entry in enumerate(self.book) if entry.state == "running"]
        if leaving and min(leaving)[0] <= self.now:
            self._depart(min(leaving)[1])
        elif self._events and self._events[0][0] <= self.now:
            _, name, up = self._events.pop(0)
            self._change_node(name, up)
        elif self._freed:
            self._freed = False
            self._retry_round()
        else:
            arriving = [p for p, entry in enumerate(self.book) if entry.state == "not arrived"]
            if not arriving or self.book[arriving[0]].pod.arrival > self.now:
                return False
            self._arrive(arriving[0])
        return True

    def _gang(self, p: int) -> Gang | None:
        """The gang that the pod starts with; none where gangs need not be whole."""
        return self.book[p].pod.gang if self.retry else None

    def _members(self, gang: Gang) -> list[int]:
        return [p for p, entry in enumerate(self.book) if entry.pod.gang == gang]

    def _arrive(self, p: int) -> None:
        shape, gang = self.book[p].pod.shape, self._gang(p)
        if gang is not None:
            self.book[p].state = "waiting"
            if all(self.book[member].state != "not arrived" for member in self._members(gang)):
                self._try_gang(gang)
        elif any(self._waits_alone(q) and other.pod.shape == shape for q, other in enumerate(self.book)):
            self.book[p].state = "waiting"
        elif not self._try(p):
            self.book[p].state = "waiting" if self.retry else "refused"

    def _waits_alone(self, p: int) -> bool:
        return self.book[p].state == "waiting" and self._gang(p) is None

    def _retry_round(self) -> None:
        hopeless = set()
        for p in sorted(range(len(self.book)), key=lambda p: (-self.book[p].pod.shape.priority, p)):
            gang, shape = self._gang(p), self.book[p].pod.shape
            if gang is not None:
                if p == self._members(gang)[0] and self._waits_whole(gang):
                    self._try_gang(gang)
            elif self.book[p].state == "waiting" and shape not in hopeless and not self._try(p):
                hopeless.add(shape)

    def _waits_whole(self, gang: Gang) -> bool:
        states = [self.book[member].state for member in self._members(gang)]
        return "waiting" in states and "not arrived" not in states

    def _try_gang(self, gang: Gang) -> None:
        waiting = [member for member in self._members(gang) if self.book[member].state == "waiting"]
        for tried, member in enumerate(waiting):
            if not self._try(member):
                for placed in waiting[:tried]:
                    self._take_back(placed)
                return

    def _try(self, p: int) -> bool:
        entry = self.book[p]
        draw = random_unit(self.seed, self.decisions)
        self.decisions += 1
        machine = self.policy.choose(self.machines, entry.pod.shape, draw, self._mates(p))
        if machine is None:
            return False
        devices = self.policy.devices(machine, entry.pod.shape, draw)
        machine.running[p] = (entry.pod.shape, devices)
        machine.last_placed = self.decisions
        entry.state, entry.node, entry.devices = "running", machine.rank, mask(devices)
        entry.placed_at, entry.ends_at = self.now, self.now + entry.pod.duration
        return True

    def _mates(self, p: int) -> Mates:
        gang = self.book[p].pod.gang
        members = self._members(gang) if gang is not None else []
        placed = [self.nodes[self.book[q].node] for q in members if self.book[q].state == "running"]
        waiting = [q for q in members if self.book[q].state not in ("running", "finished")]
        return Mates(placed, len(waiting))

    def _take_back(self, p: int) -> None:
        entry = self.book[p]
        del self.machines[entry.node].running[p]
        entry.state = "waiting" if self.retry else "refused"
        entry.node, entry.devices, entry.placed_at, entry.ends_at = -1, 0, None, FOREVER

    def _depart(self, p: int) -> None:
        self.book[p].state = "finished"
        del self.machines[self.book[p].node].running[p]
        self._freed = True

    def _change_node(self, name: str, up: bool) -> None:
        machine = next(machine for machine in self.machines if machine.node.name == name)
        if machine.alive == up:
            return
        machine.alive = up
        self._freed = True
        for p in list(machine.running):
            gang = self._gang(p)
            lost = [p] if gang is None else self._members(gang)
            for q in lost:
                if self.book[q].state == "running":
                    self._take_back(q)
                    self.book[q].restarts += 1
