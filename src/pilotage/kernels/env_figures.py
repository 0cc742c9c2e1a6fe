"""Figures of a copy: sums over its nodes, changed node by node, and the objectives made of them."""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, inner
from pilotage.kernels.env_state import (
    CPU,
    CPU_SQUARES,
    FAILED,
    FRAGMENTED,
    GPU_USED,
    GPUS,
    LOAD_SQUARES,
    LOADS,
    LOST,
    MEMORY,
    MEMORY_SQUARES,
    NEARNESS,
    NODE_SUMS,
    NODES,
    PAIRS,
    PLACED,
    REFUSED,
    RETURN,
    SEED,
    STEPS,
    UP,
    USED,
    Copy,
    World,
)
from pilotage.kernels.fragmentation import amount, quick_amount
from pilotage.kernels.inputs import used_share
from pilotage.model.workload import FloatArray

OBJECTIVES = ("gpu_allocation", "fragmentation", "balance", "used_nodes", "locality", "load")
GPU_ALLOCATION, FRAGMENTATION, BALANCE, USED_NODES, LOCALITY, LOAD = range(6)


@inlined_inner
def measure_node(world: World, copy: Copy, n: int) -> None:
    """Brings the sums up to date after node n changed. A node that is down adds nothing."""
    cluster, part_M, total_M = copy.cluster, copy.part_NM[n], copy.total_M
    for m in range(NODE_SUMS):
        total_M[m] -= part_M[m]
        part_M[m] = 0.0
    if not cluster.alive_N[n]:
        return
    cpu = used_share(cluster.free_NR[n, 0], cluster.capacity_NR[n, 0], 0.0)
    memory = used_share(cluster.free_NR[n, 1], cluster.capacity_NR[n, 1], 0.0)
    load = copy.load_N[n]
    part_M[UP] = 1.0
    part_M[CPU], part_M[CPU_SQUARES] = cpu, cpu * cpu
    part_M[MEMORY], part_M[MEMORY_SQUARES] = memory, memory * memory
    part_M[USED] = cluster.free_NR[n, 2] < cluster.capacity_NR[n, 2]
    part_M[LOADS], part_M[LOAD_SQUARES] = load, load * load
    count = cluster.device_count_N[n]
    if count > 0:
        left = 0
        for d in range(count):
            left += cluster.device_left_ND[n, d]
        part_M[GPU_USED] = count - left / 1000.0
        part_M[GPUS] = count
        part_M[FRAGMENTED] = unusable(world, copy, n) / 1000.0
    for m in range(NODE_SUMS):
        total_M[m] += part_M[m]


@inner
def unusable(world: World, copy: Copy, n: int) -> float:
    """Free GPU milli of node n that typical pods cannot use."""
    cluster = copy.cluster
    model, cpu, count = cluster.model_N[n], cluster.free_NR[n, 0], cluster.device_count_N[n]
    if world.typical.tables_complete:
        return quick_amount(world.typical, model, cpu, cluster.device_left_ND, n, count)
    return amount(world.typical, model, cpu, cluster.device_left_ND, n, count, 0, 0)


@inlined_inner
def per(total: float, count: float) -> float:
    return total / count if count > 0.0 else 0.0


@inlined_inner
def variance(total: float, squares: float, count: float) -> float:
    mean = per(total, count)
    return max(0.0, per(squares, count) - mean * mean)


@inlined_inner
def worth(copy: Copy, weight_O: FloatArray) -> float:
    """The weighted sum of the objectives; higher is better in each of them."""
    total_M, up = copy.total_M, copy.total_M[UP]
    result = 0.0
    if weight_O[GPU_ALLOCATION] != 0.0:
        result += weight_O[GPU_ALLOCATION] * per(total_M[GPU_USED], total_M[GPUS])
    if weight_O[FRAGMENTATION] != 0.0:
        result -= weight_O[FRAGMENTATION] * per(total_M[FRAGMENTED], total_M[GPUS])
    if weight_O[BALANCE] != 0.0:
        uneven = variance(total_M[CPU], total_M[CPU_SQUARES], up)
        uneven += variance(total_M[MEMORY], total_M[MEMORY_SQUARES], up)
        result -= weight_O[BALANCE] * 0.5 * uneven
    if weight_O[USED_NODES] != 0.0:
        result -= weight_O[USED_NODES] * per(total_M[USED], up)
    if weight_O[LOCALITY] != 0.0:
        result += weight_O[LOCALITY] * per(total_M[NEARNESS], copy.amount_Y[PAIRS])
    if weight_O[LOAD] != 0.0:
        result -= weight_O[LOAD] * per(total_M[LOAD_SQUARES], up)
    return result


@inlined_inner
def write_figures(copy: Copy, figure_M: FloatArray) -> None:
    """In the order of FIGURES."""
    total_M, counter_X, up = copy.total_M, copy.counter_X, copy.total_M[UP]
    figure_M[0] = copy.amount_Y[RETURN]
    figure_M[1] = variance(total_M[CPU], total_M[CPU_SQUARES], up)
    figure_M[2] = variance(total_M[MEMORY], total_M[MEMORY_SQUARES], up)
    figure_M[3] = per(total_M[GPU_USED], total_M[GPUS])
    figure_M[4] = per(total_M[FRAGMENTED], total_M[GPUS])
    figure_M[5] = per(total_M[USED], up)
    figure_M[6] = per(total_M[NEARNESS], copy.amount_Y[PAIRS])
    figure_M[7] = per(total_M[LOADS], up)
    figure_M[8] = variance(total_M[LOADS], total_M[LOAD_SQUARES], up)
    figure_M[9] = counter_X[PLACED]
    figure_M[10] = counter_X[FAILED]
    figure_M[11] = counter_X[REFUSED]
    figure_M[12] = counter_X[LOST]
    figure_M[13] = counter_X[STEPS]
    figure_M[14] = counter_X[NODES]
    figure_M[15] = counter_X[SEED]
