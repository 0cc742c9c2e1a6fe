"""The scheduler's decisions on a recorded stream of pods are those of the simulator: same node, same devices."""

from __future__ import annotations

import numpy as np
import pytest

from kube.objects import a_pod
from pilotage.kube.cache import ClusterCache, NodeFollower
from pilotage.kube.client import Json
from pilotage.kube.mixture import Mixture
from pilotage.kube.podview import read_pod
from pilotage.lab.nodes import manifest
from pilotage.model.outcome import Scheduled, Unschedulable
from pilotage.model.workload import Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle
from pilotage.sim.run import Run, RunSettings
from pilotage.workloads.generate import Mix, Times, openb_like_nodes, openb_like_pods
from pilotage.workloads.manifest_writing import pod_manifests
from pilotage.workloads.topology import natural_order

SCALE, PODS = 0.03, 300
POLICIES = ("fgd", "best-fit", "pilotage-pack", "pilotage-balance", "random", "round-robin", "2*fgd+best-fit")


def as_served(found: Json) -> Json:
    """A pod's manifest with what the API server adds to it."""
    served = a_pod(found["metadata"]["name"], annotations=found["metadata"]["annotations"])
    return {**served, "spec": {**found["spec"], "schedulerName": "pilotage"}}


@pytest.mark.parametrize("text", POLICIES)
def test_same_node_and_device(text: str) -> None:
    nodes = openb_like_nodes(SCALE)
    workload: Workload = openb_like_pods(PODS, seed=3, mix=Mix(model_named=0.3), times=Times(nodes_scale=SCALE))
    policy, seed = find_policy(text), 7
    order = sorted(range(len(nodes)), key=lambda n: natural_order(nodes[n].name))
    run = Run(nodes, workload, policy, RunSettings(seed=seed), rank_N=np.argsort(order), mix=WorkloadMix.of(workload))
    assert run.advance() == -1
    simulated = [
        Scheduled(run.state.nodes[n].name, int(devices)) if n >= 0 else None
        for n, devices in zip(run.scene.progress.node_P, run.scene.progress.devices_P, strict=True)
    ]

    cache = ClusterCache()
    NodeFollower(cache).listed([manifest(node) for node in nodes])
    cache.refresh()
    mix = Mixture(cache, WorkloadMix.of(workload)).take()
    cycle = Cycle(cache, {"pilotage": policy.prepare(mix)}, seed)
    outcomes = []
    for found in pod_manifests(workload):
        pod = read_pod(as_served(found))
        assert not pod.problem
        cache.take(pod)
        outcomes.append(cycle.attempt(pod))
    assert [o if isinstance(o, Scheduled) else None for o in outcomes] == simulated
    refused = sum(isinstance(outcome, Unschedulable) for outcome in outcomes)
    assert 0 < refused < PODS  # the comparison saw both outcomes
