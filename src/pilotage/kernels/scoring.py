"""Scores of one candidate node by rule. Rules are integers: a function as an argument would defeat numba's cache.

Formulas and truncations are those of the published simulator (OpenB / FGD experiments) and of kube-scheduler.
"""

from __future__ import annotations

import math

from pilotage.kernels.compiling import inlined, inlined_inner, kernel
from pilotage.kernels.devices import fullest_devices
from pilotage.kernels.features import (
    CPU_CAPACITY,
    CPU_FREE,
    CPU_SCORED,
    DRAW_STEPS,
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    GANG_RACK_ROOM,
    GPU_COUNT,
    GPU_FREE,
    GPU_IDLE,
    GPU_KINDS,
    GPU_MODEL,
    LAST_PLACED,
    MEMORY_CAPACITY,
    MEMORY_FREE,
    MEMORY_SCORED,
    POD_CPU,
    POD_CPU_SCORED,
    POD_DRAW,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
    POD_GPU_COUNT,
    POD_GPU_MILLI,
    POD_MEMORY,
    POD_MEMORY_SCORED,
    RANK,
    random_unit,
)
from pilotage.kernels.fragmentation import Typical, amount, cpu_class
from pilotage.model.workload import FloatArray, IntArray

(
    FIRST_FIT,
    RANDOM_NODE,
    ROUND_ROBIN,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    BALANCED_ALLOCATION,
    DOT_PRODUCT,
    GPU_CLUSTERING,
    GPU_PACKING,
    BEST_FIT,
    FGD,
    GANG_LOCALITY,
    GANG_SPREAD,
    PRICED,
) = range(14)
FLEETING = (RANDOM_NODE, GANG_LOCALITY, GANG_SPREAD)

MAX_CPU, MAX_GPU = 128000.0, 8000.0  # fixed constants of the published scores, not taken from the cluster
NEAR_STEP = 1e-7  # far above the rounding difference of the two ways to F (below 1e-9 of a score unit)


@inlined_inner
def score_node(
    rule: int,
    typical: Typical,
    pod_PF: FloatArray,
    p: int,
    node_NF: FloatArray,
    n: int,
    left_ND: IntArray,
) -> float:
    """Score of a node on which the pod fits; higher is better. PRICED has its own, in prices."""
    if rule == FGD:
        return fgd_score(typical, pod_PF, p, node_NF, n, left_ND)
    if rule == BEST_FIT:
        return best_fit_score(pod_PF, p, node_NF, n)
    if rule == DOT_PRODUCT:
        return dot_product_score(pod_PF, p, node_NF, n)
    if rule == GPU_PACKING:
        return gpu_packing_score(pod_PF, p, node_NF, n, left_ND)
    if rule == GPU_CLUSTERING:
        return gpu_clustering_score(pod_PF, p, node_NF, n)
    if rule in (LEAST_ALLOCATED, MOST_ALLOCATED):
        return allocated_score(rule == MOST_ALLOCATED, pod_PF, p, node_NF, n)
    if rule == BALANCED_ALLOCATION:
        return balanced_score(pod_PF, p, node_NF, n)
    if rule == ROUND_ROBIN:
        return -node_NF[n, LAST_PLACED]
    if rule in FLEETING:
        return fleeting_score(rule, pod_PF, p, node_NF, n)
    return 0.0  # FIRST_FIT: the order of nodes decides


@inlined_inner
def fleeting_score(rule: int, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """A score of one decision alone: the next may find another though the node has not changed."""
    if rule == RANDOM_NODE:
        return random_unit(int(pod_PF[p, POD_DRAW] * DRAW_STEPS), int(node_NF[n, RANK]))
    if rule == GANG_LOCALITY:
        return gang_locality_score(pod_PF, p, node_NF, n)
    return gang_spread_score(pod_PF, p, node_NF, n)


@inlined_inner
def gang_closeness(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """0..100: how near the node is to the placed pods of the gang. Same node 3 points, rack 2, zone 1, of 3 per pod."""
    points = node_NF[n, GANG_ON_NODE] + node_NF[n, GANG_IN_RACK] + node_NF[n, GANG_IN_ZONE]
    return 100.0 * points / (3.0 * pod_PF[p, POD_GANG_PLACED])


@inlined_inner
def gang_locality_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """Near the placed pods of the gang; the first one where its rack has room for all."""
    if pod_PF[p, POD_GANG_LEFT] == 0:
        return 0.0
    if pod_PF[p, POD_GANG_PLACED] == 0:
        return 100.0 * min(1.0, node_NF[n, GANG_RACK_ROOM] / pod_PF[p, POD_GANG_LEFT])
    return gang_closeness(pod_PF, p, node_NF, n)


@inlined_inner
def gang_spread_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    if pod_PF[p, POD_GANG_PLACED] == 0:
        return 0.0
    return 100.0 - gang_closeness(pod_PF, p, node_NF, n)


@inlined_inner
def sigmoid_percent(difference: float) -> float:
    return 100.0 / (1.0 + math.exp(-difference / 1000.0))


@inlined_inner
def published_fgd_step(before: float, after: float) -> float:
    """The published integer score of a change of F, with its own order of operations."""
    return float(int(1.0 / (1.0 + math.exp(-((before - after) / 1000.0))) * 100.0))


@inlined
def fgd_score(typical: Typical, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray) -> float:
    """Highest integer score over the devices the pod could get."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    if not typical.tables_complete or (wanted > 1 and milli < 1000):
        return fgd_score_published(typical, pod_PF, p, node_NF, n, left_ND)
    cpu = int(node_NF[n, CPU_FREE])
    model, count = int(node_NF[n, GPU_MODEL]) + 1, int(node_NF[n, GPU_COUNT])
    level, level_after = cpu_class(typical, cpu), cpu_class(typical, cpu - int(pod_PF[p, POD_CPU]))
    if wanted == 0 and level == level_after:
        return 50.0  # nothing changed that F could see: the same additions give the same bits
    idle = int(node_NF[n, GPU_IDLE])
    share_value, whole_value, device_class = typical.share_value_MCL, typical.whole_value_MCI, typical.device_class_L
    usable, usable_after, best_gain = 0.0, 0.0, -1e300
    for d in range(count):
        left = left_ND[n, d]
        kind = device_class[left]
        here = left * share_value[model, level_after, kind]
        usable += left * share_value[model, level, kind]
        usable_after += here
        if milli < 1000 and wanted == 1 and left >= milli:
            rest = left - milli
            gain = rest * share_value[model, level_after, device_class[rest]] - here
            if left == 1000:
                gain += whole_value[model, level_after, idle - 1] - whole_value[model, level_after, idle]
            best_gain = max(best_gain, gain)
    usable += whole_value[model, level, idle]
    if wanted == 0:
        usable_after += whole_value[model, level_after, idle]
    elif milli < 1000:
        usable_after += whole_value[model, level_after, idle] + best_gain
    else:
        usable_after += whole_value[model, level_after, idle - wanted]
        usable_after -= wanted * 1000.0 * share_value[model, level_after, device_class[1000]]
    # F before minus F after
    value = sigmoid_percent(milli * wanted * typical.weight_sum + usable_after - usable)
    if abs(value - math.floor(value + 0.5)) < NEAR_STEP:
        return fgd_score_published(typical, pod_PF, p, node_NF, n, left_ND)
    return math.floor(value)


@kernel
def fgd_score_published(
    typical: Typical, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> float:
    return fgd_best_device(typical, pod_PF, p, node_NF, n, left_ND)[0]


@kernel
def fgd_best_device(
    typical: Typical, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> tuple[float, int]:
    """Score by the published additions, and the device of a share pod (-1 for other pods)."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    model, count = int(node_NF[n, GPU_MODEL]), int(node_NF[n, GPU_COUNT])
    cpu = int(node_NF[n, CPU_FREE])
    cpu_after = cpu - int(pod_PF[p, POD_CPU])
    before = amount(typical, model, cpu, left_ND, n, count, 0, 0)
    if wanted != 1 or milli >= 1000:
        mask = fullest_devices(left_ND[n], count, milli, wanted)
        after = amount(typical, model, cpu_after, left_ND, n, count, mask, milli)
        return published_fgd_step(before, after), -1
    best, device = -1.0, -1
    for d in range(count):
        if left_ND[n, d] < milli or (d > 0 and left_ND[n, d] == left_ND[n, d - 1]):
            continue  # does not fit, or equal to its neighbour, whose lower index would win
        step = published_fgd_step(before, amount(typical, model, cpu_after, left_ND, n, count, 1 << d, milli))
        if step > best:
            best, device = step, d
    return best, device


@inlined_inner
def best_fit_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    gpu = pod_PF[p, POD_GPU_MILLI] * pod_PF[p, POD_GPU_COUNT]
    left = (node_NF[n, CPU_FREE] - pod_PF[p, POD_CPU]) / MAX_CPU * 0.5 + (node_NF[n, GPU_FREE] - gpu) / MAX_GPU * 0.5
    return float(int((1.0 - left) * 100.0))


@inlined_inner
def dot_product_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    gpu = pod_PF[p, POD_GPU_MILLI] * pod_PF[p, POD_GPU_COUNT]
    cpu_part = (node_NF[n, CPU_FREE] / MAX_CPU) * (pod_PF[p, POD_CPU] / MAX_CPU)
    gpu_part = (node_NF[n, GPU_FREE] / MAX_GPU) * (gpu / MAX_GPU)
    return float(int(100.0 * (1.0 - (cpu_part + gpu_part) / 2.0)))


@inlined_inner
def gpu_packing_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray) -> float:
    """Used devices before idle devices of used nodes before idle nodes."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    if milli <= 0:
        return 0.0
    idle, count = int(node_NF[n, GPU_IDLE]), int(node_NF[n, GPU_COUNT])
    if idle == count:
        return float(max(33 - idle, idle))
    mask = fullest_devices(left_ND[n], count, milli, wanted)
    opened, left_percent = 0, 0
    for d in range(count):
        if (mask >> d) & 1:
            opened += left_ND[n, d] == 1000
            left_percent += left_ND[n, d] * 100 // 1000
    if opened > 0:
        return float(max(50 - opened, 33))
    return float(max(100 - left_percent // 10, 50))


@inlined_inner
def gpu_clustering_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """Pods of one kind of GPU request together."""
    wanted = int(pod_PF[p, POD_GPU_COUNT])
    if wanted == 0:
        return 0.0
    kind = 0 if wanted == 1 and pod_PF[p, POD_GPU_MILLI] < 1000 else wanted
    kinds = int(node_NF[n, GPU_KINDS])
    base = int(25.0 * (MAX_GPU - node_NF[n, GPU_FREE]) / MAX_GPU)  # towards zero, also for more than eight devices
    if kinds == 0:
        return float(base + 25)
    if not (kinds >> kind) & 1:
        return float(base)
    return float(base + 75) if kinds == 1 << kind else float(base + 50)


@inlined_inner
def allocated_score(most: bool, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """kube-scheduler's NodeResourcesFit with LeastAllocated or MostAllocated; CPU and memory, weight 1 each."""
    total, weights = 0, 0
    for memory in range(2):
        capacity = int(node_NF[n, MEMORY_CAPACITY if memory else CPU_CAPACITY])
        used = int(node_NF[n, MEMORY_SCORED if memory else CPU_SCORED])
        used += int(pod_PF[p, POD_MEMORY_SCORED if memory else POD_CPU_SCORED])
        if capacity == 0:
            continue
        weights += 1
        if most:
            total += min(used, capacity) * 100 // capacity
        elif used <= capacity:
            total += (capacity - used) * 100 // capacity
    return float(total // weights) if weights else 0.0


@inlined_inner
def balance(cpu_used: float, cpu_capacity: float, memory_used: float, memory_capacity: float) -> int:
    if cpu_capacity == 0 or memory_capacity == 0:
        return 100
    difference = min(cpu_used / cpu_capacity, 1.0) - min(memory_used / memory_capacity, 1.0)
    return int((1.0 - abs(difference / 2.0)) * 100.0)


@inlined_inner
def balanced_score(pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int) -> float:
    """kube-scheduler's NodeResourcesBalancedAllocation (1.36: by how much the pod improves the balance)."""
    if pod_PF[p, POD_CPU] == 0 and pod_PF[p, POD_MEMORY] == 0:
        return 0.0
    cpu_capacity, memory_capacity = node_NF[n, CPU_CAPACITY], node_NF[n, MEMORY_CAPACITY]
    cpu, memory = cpu_capacity - node_NF[n, CPU_FREE], memory_capacity - node_NF[n, MEMORY_FREE]
    before = balance(cpu, cpu_capacity, memory, memory_capacity)
    after = balance(cpu + pod_PF[p, POD_CPU], cpu_capacity, memory + pod_PF[p, POD_MEMORY], memory_capacity)
    return float(50 + (50 + after - before) // 2)
