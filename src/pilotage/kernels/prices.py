"""What a node's leftover is worth: the learned value function of the shipped policies.

    V(node) = sum over devices u(left) + b(idle devices, devices) + h(c / CPU capacity) + k(m / memory capacity) + t0(c)
            + G (phi(c / (rc G)) + psi(m / (rm G)) + t1(c) + t2(c) / (1 + G) + s(model))

G is the free GPU in devices, c and m what is left of CPU and memory, rc and rm the CPU and memory that go with a GPU in
this workload. All functions are tables made from the workload and learned parameters before a run, so a score is a few
look-ups per device. The score of a placement is V(after) - V(before), plus a linear part in a few figures of the node
after it, with a row of weights for each class of pod. Two weights of a pod without GPU depend on its bulk, the part of
a node's CPU that it takes.

What a placement starts from is the same for every pod: `standing_of` a node, found once per change of it.
"""

from __future__ import annotations

from typing import NamedTuple

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


@inlined_inner
def shared_value(
    prices: FloatArray, node_NF: FloatArray, n: int, left: tuple[float, float, float, float], per: Standing
) -> float:
    """V of node n without the terms of its devices, with so much CPU, memory and GPU left; last of them 1 / GPU."""
    cpu, memory, gpus, per_gpu = left
    step = BY_CPU + 3 * min(max(int(cpu), 0) // CPU_STEP, CPU_STEPS - 1)
    value = prices[step]
    if prices[SCALES + 2] != 0.0:
        value += table_at(prices, CPU_SHARE, cpu * per.cpu)
        value += table_at(prices, MEMORY_SHARE, memory * per.memory)
    if gpus > 0.0:
        value += gpus * (
            table_at(prices, CPU_RATIO, cpu * prices[SCALES] * per_gpu)
            + table_at(prices, MEMORY_RATIO, memory * prices[SCALES + 1] * per_gpu)
            + prices[step + 1]
            + prices[step + 2] / (1.0 + gpus)
            + prices[min(MODELS + int(node_NF[n, GPU_MODEL]) + 1, prices.shape[0] - 1)]  # a model nobody knew of
        )
    return value


class Standing(NamedTuple):
    """A node as it is: V without the terms of its devices, and what one would have to divide by for every pod."""

    worth: float
    gpu: float  # 1 / free GPU, devices
    cpu: float  # 1 / capacity
    memory: float
    device: float


@inlined_inner
def standing_of(prices: FloatArray, node_NF: FloatArray, n: int) -> Standing:
    gpus = node_NF[n, GPU_FREE] * 0.001
    per = Standing(
        0.0,
        inverse(gpus),
        inverse(node_NF[n, CPU_CAPACITY]),
        inverse(node_NF[n, MEMORY_CAPACITY]),
        inverse(node_NF[n, GPU_COUNT]),
    )
    left = (node_NF[n, CPU_FREE], node_NF[n, MEMORY_FREE], gpus, per.gpu)
    return Standing(shared_value(prices, node_NF, n, left, per), per.gpu, per.cpu, per.memory, per.device)


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
        if left < milli:
            continue
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
    mask = fullest_devices(left_ND[n], count, milli, wanted)
    change, opened = 0.0, 0
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
    prices: FloatArray, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray, per: Standing
) -> tuple[float, int]:
    """Score of the pod on the node, and the device of a share pod (-1 for others). `per`: `standing_of` the node."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    first = WEIGHTS + pod_class(milli, wanted) * len(FIGURES)
    cpu = node_NF[n, CPU_FREE] - pod_PF[p, POD_CPU]
    memory = node_NF[n, MEMORY_FREE] - pod_PF[p, POD_MEMORY]
    gpus = (node_NF[n, GPU_FREE] - milli * wanted) * 0.001
    per_gpu = per.gpu if wanted == 0 else inverse(gpus)
    count, idle = int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE])
    score, device = shared_value(prices, node_NF, n, (cpu, memory, gpus, per_gpu), per) - per.worth, -1
    if wanted == 1 and milli < 1000:
        change, device = best_share_device(prices, first, node_NF, n, left_ND, milli)
        score += change
    elif wanted > 0:
        score += several_devices(prices, first, node_NF, n, left_ND, milli, wanted)
    score += prices[first + IDLE] * idle / MOST_DEVICES
    cpu_share, memory_share = cpu * per.cpu, memory * per.memory
    of_cpu, of_ratio = prices[first + CPU_LEFT], prices[first + CPU_PER_GPU]
    if wanted == 0:
        bulk = min(pod_PF[p, POD_CPU] * prices[BULK], MOST_BULK)
        of_ratio, of_cpu = of_ratio + bulk * prices[BULK + 1], of_cpu + bulk * prices[BULK + 2]
    score += of_cpu * cpu * prices[SCALES] / MOST_DEVICES + prices[first + MEMORY_LEFT] * memory_share
    score += (prices[first + GPU_LEFT] * gpus + prices[first + SIZE] * count) / MOST_DEVICES
    score += prices[first + IMBALANCE] * abs(cpu_share - gpus * per.device)
    score += prices[first + SKEW] * (memory_share - cpu_share)
    if node_NF[n, CPU_FREE] == node_NF[n, CPU_CAPACITY] and idle == count:
        score += prices[first + UNTOUCHED]
    if gpus > 0.0:
        score += of_ratio * min(cpu * prices[SCALES] * per_gpu, MOST_CPU_RATIO)
    else:
        score += prices[first + FULL]
    return score, device
