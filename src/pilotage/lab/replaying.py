"""The same pods in the same order, by the scheduler through a real API server and in the simulator: do they agree?

One creator makes pods one after the other, so that their order is that of their versions. Nothing leaves, so a pod that
was refused once never fits later: no decision depends on when anything happened.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pilotage.kube.podview import device_mask
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.load import LoadSettings, create
from pilotage.lab.nodes import add, until_ready
from pilotage.lab.processes import start, stop
from pilotage.lab.watching import SettledPods, until_settled
from pilotage.model.clock import Clock
from pilotage.model.workload import FOREVER, GPU_MILLI, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim.run import Run, RunSettings
from pilotage.workloads import openb
from pilotage.workloads.arrivals import openb_arrival
from pilotage.workloads.topology import natural_order
from pilotage.workloads.trace import Trace

SCHEDULER = "pilotage"
NAMESPACE = "load"

Where = dict[str, tuple[str, int]]  # by pod: node and bit mask of devices; refused pods are absent


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the two made of the same pods."""

    policy: str
    seed: int
    load: float
    nodes: int
    pods: int
    bound: int
    simulated_bound: int
    gpu_allocation_percent: float
    simulated_gpu_allocation_percent: float
    elsewhere: int  # pods that are on another node or device, or placed by one of the two only

    @property
    def agrees(self) -> bool:
        return not self.elsewhere and self.gpu_allocation_percent == self.simulated_gpu_allocation_percent


def arrivals(trace: Trace, load: float, seed: int) -> Workload:
    """In the order of the published protocol; all of them stay."""
    workload = openb_arrival(trace.workload, trace.nodes, load, seed).workload
    names = [f"{number:06d}-{name.replace('/', '-').lower()}" for number, name in enumerate(workload.names)]
    forever = np.full(len(workload), FOREVER)
    return replace(workload, names=names, arrival_P=np.zeros(len(workload)), duration_P=forever, timed=False)


def simulate(trace: Trace, workload: Workload, policy: str, seed: int, mix: WorkloadMix) -> Where:
    """Ties are broken by the names of nodes, as on a cluster."""
    order = sorted(range(len(trace.nodes)), key=lambda n: natural_order(trace.nodes[n].name))
    run = Run(
        trace.nodes,
        workload,
        find_policy(policy),
        RunSettings(seed=seed),
        rank_N=np.argsort(order),
        mix=mix,
    )
    run.advance()
    progress = run.scene.progress
    return {
        name: (run.state.nodes[n].name, int(devices))
        for name, n, devices in zip(workload.names, progress.node_P, progress.devices_P, strict=True)
        if n >= 0
    }


def replay(
    lab: Lab, trace: Trace, policy: str, load: float, seed: int, clock: Clock, progress: Callable[[str], None]
) -> Replayed:
    """In a lab without nodes and without another scheduler."""
    workload = arrivals(trace, load, seed)
    expected = lab.directory / "expected.csv"
    openb.write_pods(expected, trace.workload, lossy=True)
    progress(f"simulating {len(workload)} pods")
    # Both expect the pods of that file: what a rehearsal draws from depends on their order, too.
    simulated = simulate(trace, workload, policy, seed, WorkloadMix.of(openb.read_pods(expected)))
    settings = LoadSettings(NAMESPACE, SCHEDULER, in_order=True, name="replay")
    progress(f"adding {len(trace.nodes)} nodes")
    in_lab(lab, lambda client: add(client, trace.nodes))
    in_lab(lab, lambda client: until_ready(client, len(trace.nodes), clock))

    def created(done: int, total: int) -> None:
        if done % 100 == 0:
            progress(f"{done} of {total} pods created")

    in_lab(lab, lambda client: create(client, workload, settings, clock, created))
    command = [
        sys.executable,
        "-m",
        "pilotage",
        "schedule",
        "--profile",
        f"{SCHEDULER}={policy}",
        "--no-leader-election",
    ]
    command += ["--kubeconfig", str(lab.kubeconfig_of("kube-scheduler")), "--pods", str(expected), "--seed", str(seed)]
    process = start(SCHEDULER, command, lab.log(SCHEDULER), lab.directory)
    try:
        found = in_lab(
            lab,
            lambda client: until_settled(
                client, NAMESPACE, len(workload), clock, lambda one: progress(f"{one.settled} pods decided")
            ),
        )
    finally:
        stop(process, clock)
    return _compared(trace, workload, policy, load, seed, placements(found), simulated)


def placements(found: SettledPods) -> Where:
    return {name: (node, device_mask(devices)) for name, (node, devices) in found.bound.items()}


def _compared(
    trace: Trace, workload: Workload, policy: str, load: float, seed: int, live: Where, simulated: Where
) -> Replayed:
    milli = dict(zip(workload.names, workload.gpu_milli_P.tolist(), strict=True))
    capacity = GPU_MILLI * sum(node.gpu_count for node in trace.nodes)

    def allocation(where: Where) -> float:
        return round(100.0 * int(sum(milli[name] for name in where)) / max(capacity, 1), 4)

    return Replayed(
        policy=find_policy(policy).name,
        seed=seed,
        load=load,
        nodes=len(trace.nodes),
        pods=len(workload),
        bound=len(live),
        simulated_bound=len(simulated),
        gpu_allocation_percent=allocation(live),
        simulated_gpu_allocation_percent=allocation(simulated),
        elsewhere=sum(live.get(name) != simulated.get(name) for name in workload.names),
    )
