"""A naive simulation over time: whole lists are searched for what comes next; nothing is kept sorted or cached.

At one moment, in this order: departures, node events, retries, arrivals; whatever one of them brings about at the
same moment comes first again. A waiting pod is tried only after something was freed (or a node failed), by priority,
then arrival; once a pod has not fit, others of its shape are not tried in that round, nor when they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pilotage.model.cluster import Node
from pilotage.model.workload import FOREVER, Pod
from reference.choices import SlowPolicy, mask
from reference.machines import Machine
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

    def _arrive(self, p: int) -> None:
        shape = self.book[p].pod.shape
        if any(other.state == "waiting" and other.pod.shape == shape for other in self.book):
            self.book[p].state = "waiting"
        elif not self._try(p):
            self.book[p].state = "waiting" if self.retry else "refused"

    def _retry_round(self) -> None:
        waiting = [p for p, entry in enumerate(self.book) if entry.state == "waiting"]
        hopeless = set()
        for p in sorted(waiting, key=lambda p: (-self.book[p].pod.shape.priority, p)):
            if self.book[p].pod.shape not in hopeless and not self._try(p):
                hopeless.add(self.book[p].pod.shape)

    def _try(self, p: int) -> bool:
        entry = self.book[p]
        draw = random_unit(self.seed, self.decisions)
        self.decisions += 1
        machine = self.policy.choose(self.machines, entry.pod.shape, draw)
        if machine is None:
            return False
        devices = self.policy.devices(machine, entry.pod.shape, draw)
        machine.running[p] = (entry.pod.shape, devices)
        machine.last_placed = self.decisions
        entry.state, entry.node, entry.devices = "running", machine.rank, mask(devices)
        entry.placed_at, entry.ends_at = self.now, self.now + entry.pod.duration
        return True

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
            entry = self.book[p]
            entry.state = "waiting" if self.retry else "refused"
            entry.node, entry.devices, entry.placed_at, entry.ends_at = -1, 0, None, FOREVER
            entry.restarts += 1
            del machine.running[p]
