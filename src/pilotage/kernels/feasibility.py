"""Which nodes are candidates. Resources and devices here; constraints and GPU models arrive as `eligible_KN`."""

from __future__ import annotations

from typing import NamedTuple

from pilotage.kernels.compiling import inlined, inlined_inner, kernel
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import BoolArray, FloatArray, IntArray

# Why a node is no candidate; 0 is a candidate.
FITS, NODE_DOWN, NOT_ELIGIBLE, NO_GPU_LEFT, NO_RESOURCE = range(5)  # NO_RESOURCE + r names resource axis r


class ShapeArrays(NamedTuple):
    """The distinct pod shapes of a run (axis S) in the axes of its cluster."""

    request_SR: IntArray
    scored_S2: IntArray
    gpu_milli_S: IntArray
    gpu_count_S: IntArray
    devices_S: IntArray  # bit mask of the devices a pod must get, 0 = any
    eligible_S: IntArray  # row of eligible_KN
    eligible_KN: BoolArray  # one row per distinct set of constraints and GPU models
    pod_SF: FloatArray  # features; the column `draw` is filled per decision
    priority_S: IntArray


@inlined
def devices_fit(cluster: ClusterArrays, n: int, gpu_milli: int, gpu_count: int, devices: int) -> bool:
    """Whether `gpu_count` distinct devices (of the mask `devices`, where it is not 0) have `gpu_milli` left each."""
    found = 0
    for d in range(cluster.device_count_N[n]):
        if cluster.device_left_ND[n, d] >= gpu_milli and (devices == 0 or (devices >> d) & 1):
            found += 1
            if found >= gpu_count:
                return True
    return gpu_count == 0


@inlined_inner
def obstacle(cluster: ClusterArrays, shapes: ShapeArrays, s: int, n: int) -> int:
    """FITS, or the first reason why shape s cannot go to node n."""
    if not cluster.alive_N[n]:
        return NODE_DOWN
    if not shapes.eligible_KN[shapes.eligible_S[s], n]:
        return NOT_ELIGIBLE
    for r in range(shapes.request_SR.shape[1]):
        if shapes.request_SR[s, r] > 0 and shapes.request_SR[s, r] > cluster.free_NR[n, r]:
            return NO_RESOURCE + r
    if not devices_fit(cluster, n, shapes.gpu_milli_S[s], shapes.gpu_count_S[s], shapes.devices_S[s]):
        return NO_GPU_LEFT
    return FITS


@kernel
def feasible_some(cluster: ClusterArrays, shapes: ShapeArrays, s: int, nodes: IntArray, feasible: BoolArray) -> None:
    """Which of `nodes` are candidates for shape s."""
    for i in range(nodes.shape[0]):
        feasible[i] = obstacle(cluster, shapes, s, nodes[i]) == FITS


@kernel
def obstacles(cluster: ClusterArrays, shapes: ShapeArrays, s: int, obstacle_N: IntArray) -> None:
    for n in range(obstacle_N.shape[0]):
        obstacle_N[n] = obstacle(cluster, shapes, s, n)


@kernel
def narrowing_reason(cluster: ClusterArrays, shapes: ShapeArrays, s: int) -> int:
    """Why shape s fits nowhere, in one word: the test that took the last nodes.

    Tests are applied one after the other to the nodes that passed all before: down, constraints, GPU, then resource
    by resource.
    """
    resources = shapes.request_SR.shape[1]
    furthest = NODE_DOWN
    for n in range(cluster.alive_N.shape[0]):
        reached = NODE_DOWN
        if cluster.alive_N[n]:
            reached = NOT_ELIGIBLE
            if shapes.eligible_KN[shapes.eligible_S[s], n]:
                reached = NO_GPU_LEFT
                if devices_fit(cluster, n, shapes.gpu_milli_S[s], shapes.gpu_count_S[s], shapes.devices_S[s]):
                    reached = NO_RESOURCE
                    for r in range(resources):
                        if shapes.request_SR[s, r] > 0 and shapes.request_SR[s, r] > cluster.free_NR[n, r]:
                            break
                        reached = NO_RESOURCE + r + 1
        furthest = max(furthest, reached)
    return min(furthest, NO_RESOURCE + resources - 1)
