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


# How a node stands before a pod comes, columns of a row: what is free, what one would have to divide by for every pod
# (1 / GPU free, 1 / (1 + GPU free), 1 / capacities), the worth of its model, by how much the value changes when a pod
# takes one whole device, and beside that of its share when a share opens an idle one, for each class of pod all of its
# score that the pod itself plays no part in, and then its levels: the different amounts that are left on devices, but
# 0, each with its worth. All that a score needs of a node lies side by side: most of its time is fetching.
CPU, MEMORY, GPUS, DEVICES, IDLE_NOW, PER_GPU, PER_GPU_MORE, PER_CPU, PER_MEMORY, PER_DEVICE = range(10)
MODEL, WHOLE, OPENING, LEVELS, START = range(10, 15)
LEVEL = START + 4


def standing_columns(devices: int) -> int:
    """Columns of such a row, for nodes of at most so many devices."""
    return LEVEL + 2 * devices


@inlined_inner
def shared_value(prices: FloatArray, left: tuple[float, float, float, float, float], stands_X: FloatArray) -> float:
    """V of a node without the terms of its devices. `left`: CPU, memory, GPU, 1 / GPU and 1 / (1 + GPU)."""
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
            + stands_X[MODEL]
        )
    return value


@inlined_inner
def stand(prices: FloatArray, node_NF: FloatArray, n: int, left_D: IntArray, stands_X: FloatArray) -> None:
    """Writes how the node stands."""
    gpus, count, idle = node_NF[n, GPU_FREE] * 0.001, int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE])
    stands_X[CPU], stands_X[MEMORY] = node_NF[n, CPU_FREE], node_NF[n, MEMORY_FREE]
    stands_X[GPUS], stands_X[DEVICES], stands_X[IDLE_NOW] = node_NF[n, GPU_FREE], count, idle
    stands_X[MODEL] = prices[min(MODELS + int(node_NF[n, GPU_MODEL]) + 1, prices.shape[0] - 1)]  # or nobody knew of it
    stands_X[PER_GPU], stands_X[PER_GPU_MORE] = inverse(gpus), inverse(1.0 + gpus)
    stands_X[PER_CPU], stands_X[PER_MEMORY] = inverse(node_NF[n, CPU_CAPACITY]), inverse(node_NF[n, MEMORY_CAPACITY])
    stands_X[PER_DEVICE] = inverse(count)
    stands_X[WHOLE] = whole_devices(prices, WEIGHTS + 2 * len(FIGURES), count, idle, 1)
    stands_X[OPENING] = opening(prices, WEIGHTS + len(FIGURES), count, idle)
    stands_X[LEVELS] = find_levels(prices, left_D, count, stands_X)
    left = (node_NF[n, CPU_FREE], node_NF[n, MEMORY_FREE], gpus, stands_X[PER_GPU], stands_X[PER_GPU_MORE])
    worth = shared_value(prices, left, stands_X)
    untouched = node_NF[n, CPU_FREE] == node_NF[n, CPU_CAPACITY] and idle == count
    for kind in range(4):
        first = WEIGHTS + kind * len(FIGURES)
        start = (prices[first + IDLE] * idle + prices[first + SIZE] * count) / MOST_DEVICES - worth
        stands_X[START + kind] = start + prices[first + UNTOUCHED] if untouched else start
    # A pod without GPU leaves the GPUs as they are.
    full = 0.0 if gpus > 0.0 else prices[WEIGHTS + FULL]
    stands_X[START] += prices[WEIGHTS + GPU_LEFT] * gpus / MOST_DEVICES + full


@inlined_inner
def find_levels(prices: FloatArray, left_D: IntArray, count: int, stands_X: FloatArray) -> int:
    """Writes the levels of a node; how many there are."""
    levels = 0
    for d in range(count):
        left, known = left_D[d], left_D[d] == 0
        for other in range(LEVEL, LEVEL + 2 * levels, 2):
            known |= stands_X[other] == left
        if not known:
            stands_X[LEVEL + 2 * levels], stands_X[LEVEL + 2 * levels + 1] = left, prices[DEVICE + left]
            levels += 1
    return levels


@inlined_inner
def opening(prices: FloatArray, first: int, count: int, idle: int) -> float:
    """What it is worth beside the device itself that an idle device becomes one in use."""
    change = -prices[first + IDLE] / MOST_DEVICES
    if idle > 0:
        worth = IDLE_DEVICES + IDLE_ROW * count + idle
        change += prices[worth - 1] - prices[worth]
    return change


@inlined_inner
def share_change(prices: FloatArray, left: int, worth: float, milli: int, per_milli: float, opens: float) -> float:
    """By how much the value changes when a share takes `milli` of a device where `left` is left, worth `worth`."""
    rest = max(left - milli, 0)
    change = prices[DEVICE + rest] - worth + per_milli * rest
    return change + opens if left == 1000 else change


@inlined_inner
def best_share_change(prices: FloatArray, first: int, milli: int, stands_X: FloatArray) -> float:
    """Of the device that keeps most value."""
    per_milli, opens, best = prices[first + DEVICE_LEFT] * 0.001, stands_X[OPENING], -1e300
    for level in range(LEVEL, LEVEL + 2 * int(stands_X[LEVELS]), 2):  # without branches, which nobody could foretell
        left = int(stands_X[level])
        change = share_change(prices, left, stands_X[level + 1], milli, per_milli, opens)
        best = change if (left >= milli) & (change > best) else best
    return best


@kernel
def priced_share_device(
    prices: FloatArray, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> int:
    """The device that a share pod gets on the node: the one that keeps most value, the first among equals."""
    milli, first = int(pod_PF[p, POD_GPU_MILLI]), WEIGHTS + len(FIGURES)
    count, idle = int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE])
    per_milli, opens = prices[first + DEVICE_LEFT] * 0.001, opening(prices, first, count, idle)
    best, device = -1e300, -1
    for d in range(count):
        left = left_ND[n, d]
        if left >= milli:
            change = share_change(prices, left, prices[DEVICE + left], milli, per_milli, opens)
            if change > best:
                best, device = change, d
    return device


@inlined_inner
def whole_devices(prices: FloatArray, first: int, count: int, idle: int, wanted: int) -> float:
    """Change of value when a pod takes whole devices, of which so many are idle; they are all alike."""
    change = 0.0
    for _ in range(wanted):
        change += prices[DEVICE] - prices[DEVICE + 1000]
    return with_fewer_idle(prices, first, count, idle, min(wanted, idle), change)


@inlined_inner
def parts_of_devices(
    prices: FloatArray, first: int, count: int, idle: int, left_D: IntArray, milli: int, wanted: int
) -> float:
    """Change of value when a pod takes parts of several devices."""
    change, opened = 0.0, 0
    mask = fullest_devices(left_D, count, milli, wanted)
    for d in range(count):
        if (mask >> d) & 1:
            left = left_D[d]
            opened += left == 1000
            change += prices[DEVICE + left - milli] - prices[DEVICE + left]
    return with_fewer_idle(prices, first, count, idle, opened, change)


@inlined_inner
def with_fewer_idle(prices: FloatArray, first: int, count: int, idle: int, opened: int, change: float) -> float:
    """`change`, and that so many idle devices become devices in use."""
    worth = IDLE_DEVICES + IDLE_ROW * count + idle
    change += prices[worth - opened] - prices[worth]
    return change - prices[first + IDLE] * opened / MOST_DEVICES


@inlined
def priced_score(prices: FloatArray, pod_PF: FloatArray, p: int, left_D: IntArray, stands_X: FloatArray) -> float:
    """Score of the pod on a node where it fits. `stands_X`: by `stand`."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    kind = pod_class(milli, wanted)
    first, score = WEIGHTS + kind * len(FIGURES), stands_X[START + kind]
    cpu, memory = stands_X[CPU] - pod_PF[p, POD_CPU], stands_X[MEMORY] - pod_PF[p, POD_MEMORY]
    gpus = (stands_X[GPUS] - milli * wanted) * 0.001
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
        count, idle = int(stands_X[DEVICES]), int(stands_X[IDLE_NOW])
        if kind == 1:
            score += best_share_change(prices, first, milli, stands_X)
        elif kind == 2:
            score += stands_X[WHOLE]
        elif milli >= 1000:
            score += whole_devices(prices, first, count, idle, wanted)
        else:
            score += parts_of_devices(prices, first, count, idle, left_D, milli, wanted)
    score += shared_value(prices, (cpu, memory, gpus, per_gpu, per_gpu_more), stands_X)
    cpu_share, memory_share, cpu_asked = cpu * stands_X[PER_CPU], memory * stands_X[PER_MEMORY], cpu * prices[SCALES]
    score += of_cpu * cpu_asked / MOST_DEVICES + prices[first + MEMORY_LEFT] * memory_share
    score += prices[first + IMBALANCE] * abs(cpu_share - gpus * stands_X[PER_DEVICE])
    score += prices[first + SKEW] * (memory_share - cpu_share)
    if gpus > 0.0:
        score += of_ratio * min(cpu_asked * per_gpu, MOST_CPU_RATIO)
    return score
