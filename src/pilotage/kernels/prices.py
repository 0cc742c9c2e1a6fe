"""What a node's leftover is worth: the learned value function of the shipped policies.

    V(node) = sum over devices u(left) + b(idle devices) + h(c / CPU capacity) + k(m / memory capacity) + a0 A
            + G (phi(c / (rc G)) + psi(m / (rm G)) + a1 A + a2 A / (1 + G) + s(model))

G is the free GPU in devices, c and m what is left of CPU and memory, rc and rm the CPU and memory that go with a GPU in
this workload, A the share of CPU-only pods that c could still take. All functions are tables made from the workload
and learned parameters before a run, so a score is a few look-ups per device. The score of a placement is
V(after) - V(before) plus a linear part in a few figures of the node after it.
"""

from __future__ import annotations

import numpy as np

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.kernels.devices import fullest_devices
from pilotage.kernels.features import (
    CPU_CAPACITY,
    CPU_FREE,
    GPU_COUNT,
    GPU_FREE,
    GPU_IDLE,
    GPU_MODEL,
    MEMORY_CAPACITY,
    MEMORY_FREE,
    POD_CPU,
    POD_GPU_COUNT,
    POD_GPU_MILLI,
    POD_MEMORY,
)
from pilotage.model.cluster import MAX_DEVICES
from pilotage.model.workload import FloatArray, IntArray

FIGURES = (
    "cpu_left",
    "memory_left",
    "gpu_left",
    "imbalance",
    "device_left",
    "idle",
    "untouched",
    "cpu_per_gpu",
    "size",
    "skew",
)
CPU_LEFT, MEMORY_LEFT, GPU_LEFT, IMBALANCE, DEVICE_LEFT, IDLE, UNTOUCHED, CPU_PER_GPU, SIZE, SKEW = range(10)
RATIO_STEPS, MOST_RATIO = 100, 6  # tables of ratios: steps per unit, largest ratio
CPU_STEP = 500  # milli, of the table of A
MOST_DEVICES, MOST_CPU_RATIO = 8.0, 3.0  # scales of the linear part


# Tables of one workload, one after the other in one array: every further array of a run's tuples takes a second more to
# compile. Offsets of the parts.
RATIOS = MOST_RATIO * RATIO_STEPS + 1
CPU_STEPS = 260
DEVICE = 0  # u by milli left, 0..1000
CPU_RATIO = DEVICE + 1001  # phi
MEMORY_RATIO = CPU_RATIO + RATIOS  # psi
CPU_SHARE = MEMORY_RATIO + RATIOS  # h
MEMORY_SHARE = CPU_SHARE + RATIOS  # k
SMALL_PODS = MEMORY_SHARE + RATIOS  # A by CPU left in steps
WEIGHTS = SMALL_PODS + CPU_STEPS  # linear part, a row per class of pod
SCALES = WEIGHTS + 4 * len(FIGURES)  # rc (milli per GPU), rm (bytes per GPU), a0, a1, a2, whether h or k is not 0
IDLE_DEVICES = SCALES + 6  # b by idle devices, up to MAX_DEVICES
MODELS = IDLE_DEVICES + MAX_DEVICES + 1  # s by model; first = no model


def no_prices() -> FloatArray:
    return np.zeros(MODELS + 1)


@inlined_inner
def pod_class(milli: int, wanted: int) -> int:
    if wanted == 0:
        return 0
    if wanted > 1:
        return 3
    return 1 if milli < 1000 else 2


@inlined_inner
def share_of(left: float, capacity: float) -> float:
    return left / capacity if capacity > 0.0 else 0.0


@inlined_inner
def table_at(prices: FloatArray, table: int, ratio: float) -> float:
    """Linear between the steps of the table, constant beyond its end."""
    position = min(ratio * RATIO_STEPS, RATIOS - 1.001)
    k = int(position)
    return prices[table + k] + (position - k) * (prices[table + k + 1] - prices[table + k])


@inlined_inner
def shared_value(
    prices: FloatArray, cpu: float, memory: float, gpus: float, cpu_share: float, memory_share: float, model: int
) -> float:
    """V without the terms of single devices."""
    small = prices[SMALL_PODS + min(int(cpu) // CPU_STEP, CPU_STEPS - 1)]
    value = prices[SCALES + 2] * small
    if prices[SCALES + 5] != 0.0:
        value += table_at(prices, CPU_SHARE, cpu_share) + table_at(prices, MEMORY_SHARE, memory_share)
    if gpus > 0.0:
        value += gpus * (
            table_at(prices, CPU_RATIO, cpu / (prices[SCALES] * gpus))
            + table_at(prices, MEMORY_RATIO, memory / (prices[SCALES + 1] * gpus))
            + prices[SCALES + 3] * small
            + prices[SCALES + 4] * small / (1.0 + gpus)
            + prices[MODELS + model + 1]
        )
    return value


@inlined_inner
def best_share_device(
    prices: FloatArray, first: int, left_ND: IntArray, n: int, count: int, idle: int, milli: int
) -> tuple[float, int]:
    """The device of a share pod that keeps most value, the first among equals, and by how much the value changes."""
    opens = prices[IDLE_DEVICES + idle - 1] - prices[IDLE_DEVICES + idle] if idle > 0 else 0.0
    opens -= prices[first + IDLE] / MOST_DEVICES
    best, device = -1e300, -1
    for d in range(count):
        left = left_ND[n, d]
        if left < milli:
            continue
        rest = left - milli
        change = prices[DEVICE + rest] - prices[DEVICE + left] + prices[first + DEVICE_LEFT] * rest / 1000.0
        if left == 1000:
            change += opens
        if change > best:
            best, device = change, d
    return best, device


@inlined_inner
def several_devices(
    prices: FloatArray, first: int, left_ND: IntArray, n: int, count: int, idle: int, milli: int, wanted: int
) -> float:
    """Change of value when a pod takes whole devices, or parts of several."""
    mask = fullest_devices(left_ND[n], count, milli, wanted)
    change, opened = 0.0, 0
    for d in range(count):
        if (mask >> d) & 1:
            opened += left_ND[n, d] == 1000
            change += prices[DEVICE + left_ND[n, d] - milli] - prices[DEVICE + left_ND[n, d]]
    change += prices[IDLE_DEVICES + idle - opened] - prices[IDLE_DEVICES + idle]
    return change - prices[first + IDLE] * opened / MOST_DEVICES


@kernel
def priced_best_device(
    prices: FloatArray, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> tuple[float, int]:
    """Score of the pod on the node, and the device of a share pod (-1 for other pods)."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    count, idle, model = int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE]), int(node_NF[n, GPU_MODEL])
    first = WEIGHTS + pod_class(milli, wanted) * len(FIGURES)
    score, device = 0.0, -1
    if wanted == 1 and milli < 1000:
        score, device = best_share_device(prices, first, left_ND, n, count, idle, milli)
    elif wanted > 0:
        score = several_devices(prices, first, left_ND, n, count, idle, milli, wanted)
    score += prices[first + IDLE] * idle / MOST_DEVICES
    cpu, memory, gpus, cpu_share, memory_share = 0.0, 0.0, 0.0, 0.0, 0.0
    for after in range(2):  # a loop, so that the code is there once
        cpu = node_NF[n, CPU_FREE] - after * pod_PF[p, POD_CPU]
        memory = node_NF[n, MEMORY_FREE] - after * pod_PF[p, POD_MEMORY]
        gpus = (node_NF[n, GPU_FREE] - after * milli * wanted) / 1000.0
        cpu_share = share_of(cpu, node_NF[n, CPU_CAPACITY])
        memory_share = share_of(memory, node_NF[n, MEMORY_CAPACITY])
        score += (2 * after - 1) * shared_value(prices, cpu, memory, gpus, cpu_share, memory_share, model)
    score += (
        prices[first + CPU_LEFT] * cpu / (MOST_DEVICES * prices[SCALES]) + prices[first + MEMORY_LEFT] * memory_share
    )
    score += (prices[first + GPU_LEFT] * gpus + prices[first + SIZE] * count) / MOST_DEVICES
    score += prices[first + IMBALANCE] * abs(cpu_share - share_of(gpus, count))
    score += prices[first + SKEW] * (memory_share - cpu_share)
    if node_NF[n, CPU_FREE] == node_NF[n, CPU_CAPACITY] and idle == count:
        score += prices[first + UNTOUCHED]
    if gpus > 0.0:
        score += prices[first + CPU_PER_GPU] * min(cpu / (prices[SCALES] * gpus), MOST_CPU_RATIO)
    return score, device
