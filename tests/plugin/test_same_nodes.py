"""Through kube-scheduler, the plugin and the service, pods end on the nodes that the simulator chooses for them."""

from __future__ import annotations

import asyncio
import signal

import numpy as np

from conftest import ROOT
from lab.labs import eventually, fresh_namespace
from pilotage.kube.client import Client
from pilotage.lab import components
from pilotage.lab.controlplane import in_lab
from pilotage.lab.load import LoadSettings, create
from pilotage.lab.plugin_figures import plugin_counts, start_service
from pilotage.lab.processes import stop
from pilotage.model.clock import SystemClock
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim.run import Run, RunSettings
from plugin.conftest import NODES, Beside

PODS = 60
# Real numbers for scores: kube-scheduler takes any of several best nodes, so there must be one.
POLICY = f"{ROOT / 'examples' / '02_own_policy.py'}:TightestCpu"


def stream() -> Workload:
    """More than the nodes can hold, in sizes that leave no two nodes equally good."""
    source = np.random.default_rng(5)
    return Workload.of(
        Pod(f"pod-{i:02d}", PodShape(cpu_milli=int(cpu), memory_bytes=int(memory) * 2**20))
        for i, (cpu, memory) in enumerate(source.integers((500, 300), (4000, 16_000), (PODS, 2)))
    )


def simulated(policy: str, workload: Workload) -> dict[str, str | None]:
    run = Run(NODES, workload, find_policy(policy), RunSettings(seed=0), mix=WorkloadMix.of(workload))
    assert run.advance() == -1
    chosen = [run.state.nodes[n].name if n >= 0 else None for n in run.scene.progress.node_P]
    return dict(zip(workload.names, chosen, strict=True))


def test_pods_are_placed_where_the_policy_says(beside: Beside) -> None:
    """All pods wait when kube-scheduler goes on: it decides faster than it binds, so assumed pods must count."""
    workload, clock = stream(), SystemClock()
    expected = simulated(POLICY, workload)
    refused = sum(node is None for node in expected.values())
    assert 0 < refused < PODS / 2
    settings = LoadSettings(namespace=fresh_namespace(), scheduler="pilotage-alone", in_order=True)
    scheduler = beside.lab.processes[components.SCHEDULER]
    service = start_service(beside.lab, beside.socket, POLICY, clock)
    before = plugin_counts(beside.lab)
    try:

        async def run(client: Client) -> dict[str, str | None]:
            scheduler.signal(signal.SIGSTOP)
            try:
                await create(client, workload, settings, clock)
            finally:
                scheduler.signal(signal.SIGCONT)
            path = f"/api/v1/namespaces/{settings.namespace}/pods"

            async def settled() -> dict[str, str | None] | None:
                pods, _ = await client.list_all(path)
                tried = [one["spec"].get("nodeName") or one["status"].get("conditions") for one in pods]
                found = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in pods}
                return found if all(tried) and len(found) == PODS else None

            found = await eventually(settled, "every pod has been looked at")
            await asyncio.gather(*(client.delete(f"{path}/{name}") for name in found))

            async def gone() -> bool | None:
                return None if (await client.list_all(path))[0] else True

            await eventually(gone, "the pods are gone")
            return found

        assert in_lab(beside.lab, run) == expected
    finally:
        stop(service, clock)
    after = plugin_counts(beside.lab)
    assert after.fallbacks == before.fallbacks
    assert after.scored > before.scored
