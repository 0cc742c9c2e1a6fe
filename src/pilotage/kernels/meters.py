"""Running figures of a cluster, changed node by node: what is used, how fragmented, how even."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.compiling import inlined_inner, inner, kernel
from pilotage.kernels.fragmentation import Typical, amounts
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import FloatArray, IntArray

METERS = (
    "gpu_used",  # milli
    "cpu_used",  # milli
    "memory_used",  # bytes
    "nodes_used",
    "devices_used",
    "q1_lack_both",  # the seven amounts of fragmentation, GPU milli
    "q2_lack_gpu",
    "q3_satisfied",
    "q4_lack_cpu",
    "xl_satisfied",
    "xr_lack_cpu",
    "no_access",
    "cpu_share_sum",  # of used / capacity over nodes, and of its square: the variance is their balance
    "cpu_share_squares",
    "gpu_share_sum",
    "gpu_share_squares",
    "running",  # pods
    "waiting",
    "waiting_gpu",  # milli
)
GPU_USED, CPU_USED, MEMORY_USED, NODES_USED, DEVICES_USED, AMOUNTS = range(6)
CPU_SHARE_SUM, CPU_SHARE_SQUARES, GPU_SHARE_SUM, GPU_SHARE_SQUARES, RUNNING, WAITING, WAITING_GPU = range(12, 19)
NODE_METERS = 16  # the first ones are sums over nodes
MOST_SLACK = 0.002  # GPU milli; see settle


class Meters(NamedTuple):
    """Totals, and what each node adds to them."""

    typical: Typical
    total_M: FloatArray
    node_NM: FloatArray  # each node's part of the first NODE_METERS
    changes_1: IntArray  # since the sums were last added up afresh
    wanted: bool  # False: nobody reads what nodes add, and it is not followed


def empty_meters(nodes: int, typical: Typical, *, wanted: bool = True) -> Meters:
    return Meters(typical, np.zeros(len(METERS)), np.zeros((nodes, NODE_METERS)), np.zeros(1, np.int64), wanted)


@inner
def measure_node(cluster: ClusterArrays, meters: Meters, n: int) -> None:
    """Brings the totals up to date after node n changed."""
    before_M = meters.node_NM[n]
    for m in range(NODE_METERS):
        meters.total_M[m] -= before_M[m]
    count = cluster.device_count_N[n]
    used_gpu, used_devices = 0, 0
    for d in range(count):
        used = 1000 - cluster.device_left_ND[n, d]
        used_gpu += used
        used_devices += used > 0
    cpu_capacity = cluster.capacity_NR[n, 0]
    used_cpu = cpu_capacity - cluster.free_NR[n, 0]
    cpu_share = used_cpu / cpu_capacity if cpu_capacity > 0 else 0.0
    gpu_share = used_gpu / (1000.0 * count) if count > 0 else 0.0
    row = meters.node_NM[n]
    row[GPU_USED] = used_gpu
    row[CPU_USED] = used_cpu
    row[MEMORY_USED] = cluster.capacity_NR[n, 1] - cluster.free_NR[n, 1]
    row[NODES_USED] = used_gpu > 0 or used_cpu > 0
    row[DEVICES_USED] = used_devices
    q1, q2, q3, q4, xl, xr, no = amounts(
        meters.typical, cluster.model_N[n], cluster.free_NR[n, 0], cluster.device_left_ND, n, count, 0, 0
    )
    row[AMOUNTS], row[AMOUNTS + 1], row[AMOUNTS + 2], row[AMOUNTS + 3] = q1, q2, q3, q4
    row[AMOUNTS + 4], row[AMOUNTS + 5], row[AMOUNTS + 6] = xl, xr, no
    row[CPU_SHARE_SUM], row[CPU_SHARE_SQUARES] = cpu_share, cpu_share * cpu_share
    row[GPU_SHARE_SUM], row[GPU_SHARE_SQUARES] = gpu_share, gpu_share * gpu_share
    for m in range(NODE_METERS):
        meters.total_M[m] += row[m]
    meters.changes_1[0] += 1
    if meters.changes_1[0] >= meters.node_NM.shape[0]:
        add_up(meters)  # once per N changes: keeps rounding errors bounded and costs nothing


@kernel
def measure_all(cluster: ClusterArrays, meters: Meters) -> None:
    for n in range(meters.node_NM.shape[0]):
        measure_node(cluster, meters, n)
    add_up(meters)


@inner
def add_up(meters: Meters) -> None:
    """Totals afresh, node by node in order: the published order of additions."""
    meters.changes_1[0] = 0
    for m in range(NODE_METERS):
        meters.total_M[m] = 0.0
    for n in range(meters.node_NM.shape[0]):
        for m in range(NODE_METERS):
            meters.total_M[m] += meters.node_NM[n, m]


@inlined_inner
def fragmented(total_M: FloatArray) -> float:
    """Fragmented GPU milli: every amount but the satisfied one, in the published order."""
    total = 0.0
    for k in range(7):
        if k != 2:
            total += total_M[AMOUNTS + k]
    return total


@inlined_inner
def idle(total_M: FloatArray) -> float:
    total = 0.0
    for k in range(7):
        total += total_M[AMOUNTS + k]
    return total


@inlined_inner
def near_half_cent(value: float, slack: float) -> bool:
    """Whether rounding `value` to two decimals could go the other way within `slack`."""
    cents = value * 100.0
    return abs(cents - np.floor(cents) - 0.5) <= slack * 100.0 + cents * 1e-15


@inlined_inner
def settle(meters: Meters) -> None:
    """Adds up afresh where the two published decimals could depend on the order of additions.

    On clusters so large (beyond some 30,000 nodes) that the order alone moves the second decimal nothing is settled:
    no published figure exists there, and adding up at every decision would make runs quadratic.
    """
    milli, free = fragmented(meters.total_M), idle(meters.total_M)
    slack = (free + 1.0) * (meters.node_NM.shape[0] + 16) * 4.5e-16
    if meters.changes_1[0] == 0 or slack > MOST_SLACK:
        return
    ratio_slack = 200.0 * slack / free if free > 0 else 0.0
    if near_half_cent(milli, slack) or (free > 0 and near_half_cent(100.0 * milli / free, ratio_slack)):
        add_up(meters)
