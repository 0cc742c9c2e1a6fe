"""Throughput of schedulers on the same waiting pods, one after the other, as fair as one small machine allows.

Only the measured scheduler runs; both use the same user, so the API server gives them equal priority; pods wait before
it starts; the clock runs from its first binding seen to its last, and the last event about one, by a third party.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotage.kube.client import Client
from pilotage.kube.many import for_each
from pilotage.lab import components
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.load import LoadSettings, clean, create, objects
from pilotage.lab.namespaces import ensure_namespace
from pilotage.lab.processes import Started, start, stop
from pilotage.lab.watching import BoundPods, until_bound
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node
from pilotage.model.errors import PilotageError
from pilotage.model.workload import Pod, PodShape, Workload

OURS, THEIRS = "pilotage", "kube-scheduler"
MOST_SECONDS = 1800.0
THERE = PodShape(cpu_milli=100, memory_bytes=2**28)  # a pod that is on a node already


class MeasurementError(PilotageError):
    """Not all pods were bound."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one scheduler."""

    scheduler: str
    pods: int
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    events: int  # about pods that have a node

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds


def measure(lab: Lab, scheduler: str, workload: Workload, arguments: Sequence[str], clock: Clock) -> Measured:
    """Creates the pods, starts the scheduler, and stops it when the last pod is bound."""
    name = "default-scheduler" if scheduler == THEIRS else OURS
    return measure_process(lab, scheduler, name, lambda: _started(lab, scheduler, arguments), workload, clock)


def measure_process(
    lab: Lab,
    scheduler: str,
    name: str,
    begin: Callable[[], Started],
    workload: Workload,
    clock: Clock,
    ask: Callable[[], None] = lambda: None,
) -> Measured:
    """The same for pods with this `schedulerName` and a process that `begin` starts; `ask` is called before its end."""
    settings = LoadSettings(scheduler=name, name="bench")
    in_lab(lab, lambda client: create(client, workload, settings, clock))
    bound = BoundPods(clock, len(workload))
    process = begin()
    try:
        complete = in_lab(lab, lambda client: until_bound(client, settings.namespace, bound, MOST_SECONDS))
        cpu, peak = usage(process.pid)
        ask()
    finally:
        stop(process, clock)
    if not complete:
        raise MeasurementError(f"{scheduler} bound {len(bound.node_of)} of {len(workload)} pods")
    in_lab(lab, lambda client: clean(client, settings, clock))
    return Measured(scheduler, len(workload), bound.last_at - bound.first_at, cpu, peak, bound.events)


def fill(lab: Lab, nodes: Sequence[Node], pods: int, clock: Clock, progress: Callable[[int, int], None]) -> None:
    """Puts pods on the nodes in turns, as if they had been there for long: what schedulers must know of."""
    settings = LoadSettings(namespace="there", scheduler="somebody", name="there")
    ((_, path, template),) = objects(Workload.of([Pod("there", THERE)]), settings)

    async def made(client: Client) -> None:
        async def one(number: int) -> None:
            metadata = {**template["metadata"], "name": f"there-{number:06d}"}
            spec = {**template["spec"], "nodeName": nodes[number % len(nodes)].name}
            await client.create(path, {**template, "metadata": metadata, "spec": spec})

        await ensure_namespace(client, settings.namespace, clock)
        await for_each(range(pods), one, progress)

    in_lab(lab, made)


def _started(lab: Lab, scheduler: str, arguments: Sequence[str]) -> Started:
    if scheduler == THEIRS:
        return lab.started(components.SCHEDULER).processes[components.SCHEDULER]
    command = [sys.executable, "-m", "pilotage", "schedule", "--no-leader-election", *arguments]
    command += ["--kubeconfig", str(lab.kubeconfig_of("kube-scheduler"))]
    return start(OURS, command, lab.directory / "pilotage.log", lab.directory)


def usage(pid: int) -> tuple[float, float]:
    """Processor seconds and the most memory (MB) of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return ticks / os.sysconf("SC_CLK_TCK"), peak / 1024
