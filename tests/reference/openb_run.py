"""The published experiment, pod by pod and node by node: decisions, figures after each event, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.model.cluster import Node
from pilotage.model.workload import Pod
from reference.choices import SlowPolicy, mask
from reference.fragmentation import amounts, fragmented, idle
from reference.machines import WHOLE, Machine, Mates
from reference.scores import random_unit


@dataclass(frozen=True)
class Event:
    """After one pod: where it went, and what the simulator would log."""

    node: int  # by rank, -1 = failed
    devices: int
    arrived_milli: int
    used_milli: int
    used_nodes: int
    used_devices: int
    amounts: tuple[float, ...]

    @property
    def logged_frag(self) -> float:
        return float(f"{fragmented(self.amounts):.2f}")

    @property
    def logged_ratio(self) -> float:
        total = idle(self.amounts)
        return float(f"{100 * fragmented(self.amounts) / total:.2f}") if total > 0 else 0.0


def openb_run(nodes: Sequence[Node], pods: Sequence[Pod], policy: SlowPolicy, seed: int = 0) -> list[Event]:
    """`nodes` in the order of their ranks, `pods` in order of arrival; a pod that does not fit is gone."""
    machines = [Machine(node, rank) for rank, node in enumerate(nodes)]
    events: list[Event] = []
    arrived = 0
    for p, pod in enumerate(pods):
        shape, draw = pod.shape, random_unit(seed, p)
        gang = [q for q, other in enumerate(pods) if pod.gang is not None and other.gang == pod.gang]
        placed = [nodes[events[q].node] for q in gang if q < p and events[q].node >= 0]
        machine = policy.choose(machines, shape, draw, Mates(placed, len([q for q in gang if q >= p])))
        devices: tuple[int, ...] = ()
        if machine is not None:
            devices = policy.devices(machine, shape, draw)
            machine.running[p] = (shape, devices)
            machine.last_placed = p + 1
        arrived += shape.gpu_milli * shape.gpu_count
        events.append(_event(machines, policy, -1 if machine is None else machine.rank, mask(devices), arrived))
    return events


def _event(machines: Sequence[Machine], policy: SlowPolicy, node: int, devices: int, arrived: int) -> Event:
    vector = [0.0] * 7
    used_milli, used_nodes, used_devices = 0, 0, 0
    for machine in machines:
        lefts, cpu = machine.lefts(), machine.free("cpu")
        for k, value in enumerate(amounts(cpu, lefts, machine.node.gpu_model, policy.typical)):
            vector[k] += value
        used_milli += sum(WHOLE - left for left in lefts)
        used_devices += sum(1 for left in lefts if left < WHOLE)
        used_nodes += any(left < WHOLE for left in lefts) or cpu < machine.node.cpu_milli
    return Event(node, devices, arrived, used_milli, used_nodes, used_devices, tuple(vector))


def tables(events: Sequence[Event], total_gpus: int, last_column: int) -> list[list[float | None]]:
    """Allocation, fragmentation and fragmentation ratio by arrived load, as the published scripts merge the logs.

    What arrives beyond ten times the capacity goes into column 1000; no published run comes near it.
    """
    arrive = [min(round(event.arrived_milli / total_gpus / 10, 0), 1000) for event in events]
    alloc = [round(event.used_milli / total_gpus / 10, 2) for event in events]
    result: list[list[float | None]] = [[], [], []]
    for k in range(last_column + 1):
        rows = [i for i, value in enumerate(arrive) if value == k]
        if not rows:
            rows = [i for i, value in enumerate(arrive) if k - 1 <= value <= k + 1]
        if not rows:
            for column in result:
                column.append(None)
            continue
        # numpy's mean and rounding are part of the protocol
        result[0].append(float(np.round(np.mean([alloc[i] for i in rows]), 2)))
        frag = np.mean([events[i].logged_frag for i in rows])
        result[1].append(float(np.round(100 * frag / 1000 / total_gpus, 2)))
        result[2].append(float(np.mean([events[i].logged_ratio for i in rows])))
    return result
