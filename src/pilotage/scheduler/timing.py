"""How long decisions take on a cluster that stands still: wall time, with nothing else going on in the process."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from pilotage.kube.cache import ClusterCache
from pilotage.kube.mixture import Mixture
from pilotage.kube.podview import PodView
from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape, Workload
from pilotage.policies.api import Policy, WorkloadMix, prepared
from pilotage.scheduler.cycle import Cycle, try_decision


def decision_seconds(
    nodes: Sequence[Node], there: Sequence[PodShape], workload: Workload, policy: Policy
) -> list[float]:
    """Of each pod of a workload, one after the other; `there` are pods on the nodes already, in turns."""
    try_decision(nodes[:1], workload.shapes[0], policy)  # what is not compiled yet is no part of it
    cache = ClusterCache()
    cache.set_nodes(nodes)
    for number, shape in enumerate(there):
        name = nodes[number % len(nodes)].name
        cache.take(PodView(f"there-{number}", "there", f"there-{number}", shape, node=name))
    mix = Mixture(cache, WorkloadMix.of(workload)).take()
    cycle = Cycle(cache, {"": prepared(policy, mix)})
    found = []
    for name, shape in zip(workload.names, workload.shape_P, strict=True):
        pod = PodView(name, "default", name, workload.shapes[shape])
        began = time.perf_counter()
        cycle.attempt(pod)
        found.append(time.perf_counter() - began)
    return found


def p99(seconds: Collection[float]) -> float:
    """0 of nothing."""
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))] if seconds else 0.0
