"""Workloads for the objective of an even load: equal workers without GPU, and pods that fill them to about a quarter.

`balance-10` is ten workers and fifteen equal pods for each; `balance-mixed-10` asks for the same CPU and memory in all,
in pods of five shapes whose CPU and memory are not in proportion. Nothing but the order of arrival is left to a seed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pilotage.model.cluster import Node
from pilotage.model.workload import FOREVER, PodShape, Workload
from pilotage.workloads.generate import GIB, numbered
from pilotage.workloads.topology import labelled

WORKER_CPU_MILLI: Final = 64_000
WORKER_MEMORY_BYTES: Final = 256 * GIB
WORKER_PODS: Final = 110
PODS_PER_WORKER: Final = 15
MOST_WORKERS: Final = 100_000

UNIFORM: Final = {PodShape(1000, 2 * GIB): PODS_PER_WORKER}
MIXED: Final = {
    PodShape(250, GIB // 2): 4,
    PodShape(500, 3 * GIB): 4,
    PodShape(1000, GIB): 4,
    PodShape(2000, 2 * GIB): 2,
    PodShape(4000, 8 * GIB): 1,
}  # pods per worker: 15 CPU and 30 GiB in all, as in the uniform one


def workers(count: int) -> tuple[Node, ...]:
    """In racks and zones, which policies that look at a cluster's graph see."""
    names = numbered("worker-", count, 4)
    return labelled([Node(name, WORKER_CPU_MILLI, WORKER_MEMORY_BYTES, WORKER_PODS) for name in names])


def balance_pods(count: int, per_worker: dict[PodShape, int]) -> Workload:
    """Pods for so many workers, one worker's share after the other; runs shuffle them."""
    shape_P = np.tile(np.repeat(np.arange(len(per_worker)), list(per_worker.values())), count)
    P = len(shape_P)
    return Workload(
        numbered("pod-", P, 5), tuple(per_worker), shape_P, np.arange(P, dtype=np.float64), np.full(P, FOREVER)
    )
