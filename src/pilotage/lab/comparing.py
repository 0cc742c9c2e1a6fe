"""Several schedulers on the same load, one after the other: what is placed, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.kube.client import Client
from pilotage.kube.podview import read_pod
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import GPU_MILLI


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a scheduler left the cluster."""

    scheduler: str
    bound: int
    waiting: int
    gpu_allocation_percent: float
    cpu_allocation_percent: float
    cpu_variance: float  # of the nodes' shares in use
    nodes_in_use: int
    over_capacity: int  # nodes with more asked of them than they have,
    over_gpu: int  # and those where it is GPUs


async def placed(client: Client, scheduler: str, nodes: Sequence[Node], namespace: str) -> Placed:
    """Reads the pods of a namespace back from the API server and counts."""
    pods, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
    views = [read_pod(pod) for pod in pods]
    state = ClusterState(nodes, {name for view in views for name, _ in view.shape.extended})
    capacity_NR = state.arrays.capacity_NR
    used_NR = np.zeros_like(capacity_NR)
    gpu_milli_N = np.zeros(len(nodes), np.int64)
    for view in views:
        if view.node in state.index and not view.finished:
            used_NR[state.index[view.node]] += state.demand(view.shape).request_R
            gpu_milli_N[state.index[view.node]] += view.shape.total_gpu_milli
    share_N = used_NR[:, 0] / np.maximum(capacity_NR[:, 0], 1)
    bound = sum(bool(view.node) for view in views)
    return Placed(
        scheduler=scheduler,
        bound=bound,
        waiting=len(views) - bound,
        gpu_allocation_percent=100.0 * int(gpu_milli_N.sum()) / max(state.gpu_capacity_milli, 1),
        cpu_allocation_percent=100.0 * float(used_NR[:, 0].sum() / max(int(capacity_NR[:, 0].sum()), 1)),
        cpu_variance=float(share_N.var()) if len(share_N) else 0.0,
        nodes_in_use=int((used_NR[:, 2] > 0).sum()),
        over_capacity=int((used_NR > capacity_NR).any(axis=1).sum()),
        over_gpu=int((gpu_milli_N > GPU_MILLI * state.arrays.device_count_N).sum()),
    )
