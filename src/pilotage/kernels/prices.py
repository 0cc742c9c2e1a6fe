"""What a node's leftover is worth: the learned value function of the shipped policies.

    V(node) = sum over devices u(left) + b(idle devices, devices) + h(c / CPU capacity) + k(m / memory capacity) + t0(c)
            + G (phi(c / (rc G)) + psi(m / (rm G)) + t1(c) + t2(c) / (1 + G) + s(model))

G is the free GPU in devices, c and m what is left of CPU and memory, rc and rm the CPU and memory that go with a GPU in
this workload. All functions are tables made from the workload and learned parameters before a run, so a score is a few
look-ups per device. The score of a placement is V(after) - V(before), plus a linear part in a few figures of the node
after it, with a row of weights for each class of pod. Two weights of a pod without GPU depend on its bulk, the part of
a node's CPU that it takes.

What a placement starts from is the same for every pod: how the node stands (`stand`), found once per change of it.
"""

from __future__ import annotations

import numpy as np

from pilotage.kernels.compiling import inlined, inlined_inner, kernel
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
    "full",
)
CPU_LEFT, MEMORY_LEFT, GPU_LEFT, IMBALANCE, DEVICE_LEFT, IDLE, UNTOUCHED, CPU_PER_GPU, SIZE, SKEW, FULL = range(11)
RATIO_STEPS, MOST_RATIO = 100, 6  # tables of ratios: steps per unit, largest ratio
CPU_STEP = 500  # milli, of the tables by CPU left
MOST_DEVICES, MOST_CPU_RATIO = 8.0, 3.0  # scales of the linear part
MOST_BULK = 0.5


# Tables of one workload, one after the other in one array: every further array of a run's tuples takes a second more to
# compile. Offsets of the parts.
RATIOS = MOST_RATIO * RATIO_STEPS + 1
CPU_STEPS = 260
DEVICE = 0  # u by milli left, 0..1000
CPU_RATIO = DEVICE + 1001  # phi
MEMORY_RATIO = CPU_RATIO + RATIOS  # psi
CPU_SHARE = MEMORY_RATIO + RATIOS  # h
MEMORY_SHARE = CPU_SHARE + RATIOS  # k
BY_CPU = MEMORY_SHARE + RATIOS  # t0, t1, t2 by CPU left in steps, one beside the other
WEIGHTS = BY_CPU + 3 * CPU_STEPS  # linear part, a row per class of pod
SCALES = WEIGHTS + 4 * len(FIGURES)  # 1 / rc (milli per GPU), 1 / rm (bytes), whether h or k is not 0
BULK = SCALES + 3  # 1 / CPU of a node on the mean, then what bulk adds to the weights CPU_PER_GPU and CPU_LEFT
IDLE_DEVICES = BULK + 3  # b by devices and idle devices, up to MAX_DEVICES
IDLE_ROW = MAX_DEVICES + 1
MODELS = IDLE_DEVICES + IDLE_ROW * IDLE_ROW  # s by model; first = no model


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
def inverse(amount: float) -> float:
    """1 / amount; 0 where there is none, so that a share of nothing is 0."""
    return 1.0 / amount if amount > 0.0 else 0.0


@inlined_inner
def table_at(prices: FloatArray, table: int, ratio: float) -> float:
    """Linear between the steps of the table, constant beyond its end."""
    position = min(max(ratio, 0.0) * RATIO_STEPS, RATIOS - 1.001)  # below 0 on a node that others overcommitted
    k = int(position)
    return prices[table + k] + (position - k) * (prices[table + k + 1] - prices[table + k])


# How a node stands before a pod comes, columns of a row: what one would have to divide by for every pod (1 / GPU free,
# 1 / (1 + GPU free), 1 / capacities), and for each class of pod all of its score that the pod itself plays no part in.
PER_GPU, PER_GPU_MORE, PER_CPU, PER_MEMORY, PER_DEVICE, START = range(6)
STANDING = START + 4


@inlined_inner
def shared_value(
    prices: FloatArray,
    node_NF: FloatArray,
    n: int,
    left: tuple[float, float, float, float, float],
    stands_X: FloatArray,
) -> float:
    """V of node n without the terms of its devices. `left`: CPU, memory, GPU, 1 / GPU and 1 / (1 + GPU)."""
    cpu, memory, gpus, per_gpu, per_gpu_more = left
    step = BY_CPU + 3 * min(max(int(cpu), 0) // CPU_STEP, CPU_STEPS - 1)
    value = prices[step]
    if prices[SCALES + 2] != 0.0:
        value += table_at(prices, CPU_SHARE, cpu * stands_X[PER_CPU])
        value += table_at(prices, MEMORY_SHARE, memory * stands_X[PER_MEMORY])
    if gpus > 0.0:
        value += gpus * (
            table_at(prices, CPU_RATIO, cpu * prices[SCALES] * per_gpu)
            + table_at(prices, MEMORY_RATIO, memory * prices[SCALES + 1] * per_gpu)
            + prices[step + 1]
            + prices[step + 2] * per_gpu_more
            + prices[min(MODELS + int(node_NF[n, GPU_MODEL]) + 1, prices.shape[0] - 1)]  # a model nobody knew of
        )
    return value


@inlined_inner
def stand(prices: FloatArray, node_NF: FloatArray, n: int, stands_X: FloatArray) -> None:
    """Writes how the node stands."""
    gpus, count, idle = node_NF[n, GPU_FREE] * 0.001, node_NF[n, GPU_COUNT], node_NF[n, GPU_IDLE]
    stands_X[PER_GPU], stands_X[PER_GPU_MORE] = inverse(gpus), inverse(1.0 + gpus)
    stands_X[PER_CPU], stands_X[PER_MEMORY] = inverse(node_NF[n, CPU_CAPACITY]), inverse(node_NF[n, MEMORY_CAPACITY])
    stands_X[PER_DEVICE] = inverse(count)
    left = (node_NF[n, CPU_FREE], node_NF[n, MEMORY_FREE], gpus, stands_X[PER_GPU], stands_X[PER_GPU_MORE])
    worth = shared_value(prices, node_NF, n, left, stands_X)
    untouched = node_NF[n, CPU_FREE] == node_NF[n, CPU_CAPACITY] and idle == count
    for kind in range(4):
        first = WEIGHTS + kind * len(FIGURES)
        start = (prices[first + IDLE] * idle + prices[first + SIZE] * count) / MOST_DEVICES - worth
        stands_X[START + kind] = start + prices[first + UNTOUCHED] if untouched else start
    # A pod without GPU leaves the GPUs as they are.
    full = 0.0 if gpus > 0.0 else prices[WEIGHTS + FULL]
    stands_X[START] += prices[WEIGHTS + GPU_LEFT] * gpus / MOST_DEVICES + full


@inlined_inner
def best_share_device(
    prices: FloatArray, first: int, node_NF: FloatArray, n: int, left_ND: IntArray, milli: int
) -> tuple[float, int]:
    """The device of a share pod that keeps most value, the first among equals, and by how much the value changes."""
    per_milli = prices[first + DEVICE_LEFT] * 0.001
    count, idle = int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE])
    opens = -prices[first + IDLE] / MOST_DEVICES
    if idle > 0:
        worth = IDLE_DEVICES + IDLE_ROW * count + idle
        opens += prices[worth - 1] - prices[worth]
    best, device = -1e300, -1
    for d in range(count):
        left = left_ND[n, d]
        if left < milli or (d > 0 and left == left_ND[n, d - 1]):
            continue  # does not fit, or is worth what its neighbour is, which comes first
        rest = left - milli
        change = prices[DEVICE + rest] - prices[DEVICE + left] + per_milli * rest
        if left == 1000:
            change += opens
        if change > best:
            best, device = change, d
    return best, device


@inlined_inner
def several_devices(
    prices: FloatArray, first: int, node_NF: FloatArray, n: int, left_ND: IntArray, milli: int, wanted: int
) -> float:
    """Change of value when a pod takes whole devices, or parts of several."""
    count, idle = int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE])
    change, opened = 0.0, 0
    if milli >= 1000:  # idle devices, which are all alike
        opened = wanted
        for _ in range(wanted):
            change += prices[DEVICE] - prices[DEVICE + 1000]
    else:
        mask = fullest_devices(left_ND[n], count, milli, wanted)
        for d in range(count):
            if (mask >> d) & 1:
                left = left_ND[n, d]
                opened += left == 1000
                change += prices[DEVICE + left - milli] - prices[DEVICE + left]
    worth = IDLE_DEVICES + IDLE_ROW * count + idle
    change += prices[worth - opened] - prices[worth]
    return change - prices[first + IDLE] * opened / MOST_DEVICES


@kernel
def priced_share_device(
    prices: FloatArray, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> int:
    """The device that a share pod gets on the node: the one its score is for."""
    milli = int(pod_PF[p, POD_GPU_MILLI])
    return best_share_device(prices, WEIGHTS + pod_class(milli, 1) * len(FIGURES), node_NF, n, left_ND, milli)[1]


@inlined
def priced_best_device(
    prices: FloatArray, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray, stands_X: FloatArray
) -> tuple[float, int]:
    """Score of the pod on the node, and the device of a share pod (-1 for others). `stands_X`: by `stand`."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    kind = pod_class(milli, wanted)
    first, score, device = WEIGHTS + kind * len(FIGURES), stands_X[START + kind], -1
    cpu = node_NF[n, CPU_FREE] - pod_PF[p, POD_CPU]
    memory = node_NF[n, MEMORY_FREE] - pod_PF[p, POD_MEMORY]
    gpus = (node_NF[n, GPU_FREE] - milli * wanted) * 0.001
    of_cpu, of_ratio = prices[first + CPU_LEFT], prices[first + CPU_PER_GPU]
    per_gpu, per_gpu_more = stands_X[PER_GPU], stands_X[PER_GPU_MORE]
    if wanted == 0:
        bulk = min(pod_PF[p, POD_CPU] * prices[BULK], MOST_BULK)
        of_ratio, of_cpu = of_ratio + bulk * prices[BULK + 1], of_cpu + bulk * prices[BULK + 2]
    else:
        both = inverse(gpus * (1.0 + gpus))  # one division for two
        per_gpu, per_gpu_more = both * (1.0 + gpus), both * gpus
        score += prices[first + GPU_LEFT] * gpus / MOST_DEVICES
        if gpus <= 0.0:
            score += prices[first + FULL]
        if kind == 1:
            change, device = best_share_device(prices, first, node_NF, n, left_ND, milli)
            score += change
        else:
            score += several_devices(prices, first, node_NF, n, left_ND, milli, wanted)
    score += shared_value(prices, node_NF, n, (cpu, memory, gpus, per_gpu, per_gpu_more), stands_X)
    cpu_share, memory_share, cpu_asked = cpu * stands_X[PER_CPU], memory * stands_X[PER_MEMORY], cpu * prices[SCALES]
    score += of_cpu * cpu_asked / MOST_DEVICES + prices[first + MEMORY_LEFT] * memory_share
    score += prices[first + IMBALANCE] * abs(cpu_share - gpus * stands_X[PER_DEVICE])
    score += prices[first + SKEW] * (memory_share - cpu_share)
    if gpus > 0.0:
        score += of_ratio * min(cpu_asked * per_gpu, MOST_CPU_RATIO)
    return score, device
