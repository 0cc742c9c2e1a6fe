"""What a node's leftover is worth: the learned value function of the shipped policies.

    V(node) = sum over devices u(left) + b(idle devices) + h(c / CPU capacity) + k(m / memory capacity) + t0(c)
            + G (phi(c / (rc G)) + psi(m / (rm G)) + t1(c) + t2(c) / (1 + G) + s(model))

G is the free GPU in devices, c and m what is left of CPU and memory, rc and rm the CPU and memory that go with a GPU in
this workload. All functions are tables made from the workload and learned parameters before a run, so a score is a few
look-ups per device. The score of a placement is V(after) - V(before), plus a weight for each class of pod times the
change of what typical pods could use (the measure of FGD), plus a linear part in a few figures of the node after it.

What a node is worth before a placement is the same for every pod: `worth_before`, found once per change of the node.
"""

from __future__ import annotations

from typing import NamedTuple

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
from pilotage.kernels.fragmentation import Typical, cpu_class
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
    "usable",
)
CPU_LEFT, MEMORY_LEFT, GPU_LEFT, IMBALANCE, DEVICE_LEFT, IDLE, UNTOUCHED, CPU_PER_GPU, SIZE, SKEW, USABLE = range(11)
RATIO_STEPS, MOST_RATIO = 100, 6  # tables of ratios: steps per unit, largest ratio
CPU_STEP = 500  # milli, of the tables by CPU left
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
BY_CPU = MEMORY_SHARE + RATIOS  # t0, t1, t2 by CPU left in steps, one beside the other
WEIGHTS = BY_CPU + 3 * CPU_STEPS  # linear part, a row per class of pod
# 1 / rc (milli per GPU), 1 / rm (bytes), whether h or k is not 0, whether a weight of USABLE is not 0
SCALES = WEIGHTS + 4 * len(FIGURES)
IDLE_DEVICES = SCALES + 4  # b by idle devices, up to MAX_DEVICES
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
def shared_value(prices: FloatArray, node_NF: FloatArray, n: int, cpu: float, memory: float, gpus: float) -> float:
    """V of node n without the terms of its devices, with so much left."""
    step = BY_CPU + 3 * min(int(cpu) // CPU_STEP, CPU_STEPS - 1)
    value = prices[step]
    if prices[SCALES + 2] != 0.0:
        value += table_at(prices, CPU_SHARE, share_of(cpu, node_NF[n, CPU_CAPACITY]))
        value += table_at(prices, MEMORY_SHARE, share_of(memory, node_NF[n, MEMORY_CAPACITY]))
    if gpus > 0.0:
        each = 1.0 / gpus
        value += gpus * (
            table_at(prices, CPU_RATIO, cpu * prices[SCALES] * each)
            + table_at(prices, MEMORY_RATIO, memory * prices[SCALES + 1] * each)
            + prices[step + 1]
            + prices[step + 2] / (1.0 + gpus)
            + prices[min(MODELS + int(node_NF[n, GPU_MODEL]) + 1, prices.shape[0] - 1)]  # a model nobody knew of
        )
    return value


class Spot(NamedTuple):
    """A node as the typical pods see it."""

    n: int
    devices: int
    idle: int
    model: int  # row of the tables of typical pods
    level: int  # class of the CPU left


@inlined_inner
def spot_of(prices: FloatArray, typical: Typical, node_NF: FloatArray, n: int, cpu: float) -> Spot:
    """Node n with so much CPU left. A model that the tables do not know counts as none."""
    model = int(node_NF[n, GPU_MODEL]) + 1
    if model >= typical.share_value_MCL.shape[0]:
        model = 0
    level = cpu_class(typical, int(cpu)) if prices[SCALES + 3] != 0.0 else 0
    return Spot(n, int(node_NF[n, GPU_COUNT]), int(node_NF[n, GPU_IDLE]), model, level)


@inlined_inner
def usable_on_device(typical: Typical, spot: Spot, left: int) -> float:
    """GPU milli of a device that typical pods with one device could use."""
    return left * typical.share_value_MCL[spot.model, spot.level, typical.device_class_L[left]]


@inlined_inner
def usable_idle(typical: Typical, spot: Spot, idle: int) -> float:
    """GPU milli of idle devices that typical pods with several could use; more than the tables know are as the most."""
    return typical.whole_value_MCI[spot.model, spot.level, min(idle, typical.whole_value_MCI.shape[2] - 1)]


@inlined_inner
def usable_milli(typical: Typical, spot: Spot, left_ND: IntArray) -> float:
    usable = usable_idle(typical, spot, spot.idle)
    for d in range(spot.devices):
        usable += usable_on_device(typical, spot, left_ND[spot.n, d])
    return usable


@kernel
def worth_before(
    prices: FloatArray, typical: Typical, node_NF: FloatArray, n: int, left_ND: IntArray
) -> tuple[float, float, float]:
    """Of node n as it is: V without the terms of its devices, the GPU that typical pods could use, class of its CPU."""
    cpu, memory, gpus = node_NF[n, CPU_FREE], node_NF[n, MEMORY_FREE], node_NF[n, GPU_FREE] * 0.001
    value, usable = shared_value(prices, node_NF, n, cpu, memory, gpus), 0.0
    spot = spot_of(prices, typical, node_NF, n, cpu)
    if prices[SCALES + 3] != 0.0:
        usable = usable_milli(typical, spot, left_ND) * 0.001
    return value, usable, float(spot.level)


@inlined_inner
def best_share_device(
    prices: FloatArray, typical: Typical, first: int, left_ND: IntArray, spot: Spot, milli: int
) -> tuple[float, int]:
    """The device of a share pod that keeps most value, the first among equals, and by how much the value changes."""
    per_milli, per_usable = prices[first + DEVICE_LEFT] * 0.001, prices[first + USABLE] * 0.001
    opens = -prices[first + IDLE] / MOST_DEVICES
    if spot.idle > 0:
        opens += prices[IDLE_DEVICES + spot.idle - 1] - prices[IDLE_DEVICES + spot.idle]
        if per_usable != 0.0:
            opens += per_usable * (usable_idle(typical, spot, spot.idle - 1) - usable_idle(typical, spot, spot.idle))
    best, device = -1e300, -1
    for d in range(spot.devices):
        left = left_ND[spot.n, d]
        if left < milli:
            continue
        rest = left - milli
        change = prices[DEVICE + rest] - prices[DEVICE + left] + per_milli * rest
        if per_usable != 0.0:
            change += per_usable * (usable_on_device(typical, spot, rest) - usable_on_device(typical, spot, left))
        if left == 1000:
            change += opens
        if change > best:
            best, device = change, d
    return best, device


@inlined_inner
def several_devices(
    prices: FloatArray, typical: Typical, first: int, left_ND: IntArray, spot: Spot, milli: int, wanted: int
) -> float:
    """Change of value when a pod takes whole devices, or parts of several."""
    mask = fullest_devices(left_ND[spot.n], spot.devices, milli, wanted)
    change, usable, opened = 0.0, 0.0, 0
    for d in range(spot.devices):
        if (mask >> d) & 1:
            left = left_ND[spot.n, d]
            opened += left == 1000
            change += prices[DEVICE + left - milli] - prices[DEVICE + left]
            usable += usable_on_device(typical, spot, left - milli) - usable_on_device(typical, spot, left)
    usable += usable_idle(typical, spot, spot.idle - opened) - usable_idle(typical, spot, spot.idle)
    change += prices[IDLE_DEVICES + spot.idle - opened] - prices[IDLE_DEVICES + spot.idle]
    return change + prices[first + USABLE] * 0.001 * usable - prices[first + IDLE] * opened / MOST_DEVICES


@kernel
def priced_share_device(
    prices: FloatArray, typical: Typical, pod_PF: FloatArray, p: int, node_NF: FloatArray, n: int, left_ND: IntArray
) -> int:
    """The device that a share pod gets on the node: the one its score is for."""
    milli = int(pod_PF[p, POD_GPU_MILLI])
    spot = spot_of(prices, typical, node_NF, n, node_NF[n, CPU_FREE] - pod_PF[p, POD_CPU])
    return best_share_device(prices, typical, WEIGHTS + pod_class(milli, 1) * len(FIGURES), left_ND, spot, milli)[1]


@kernel
def priced_best_device(
    prices: FloatArray,
    typical: Typical,
    pod_PF: FloatArray,
    p: int,
    node_NF: FloatArray,
    n: int,
    left_ND: IntArray,
    before: tuple[float, float, float],
) -> tuple[float, int]:
    """Score of the pod on the node, and the device of a share pod (-1 for other pods). `before`: `worth_before`."""
    milli, wanted = int(pod_PF[p, POD_GPU_MILLI]), int(pod_PF[p, POD_GPU_COUNT])
    first = WEIGHTS + pod_class(milli, wanted) * len(FIGURES)
    cpu = node_NF[n, CPU_FREE] - pod_PF[p, POD_CPU]
    memory = node_NF[n, MEMORY_FREE] - pod_PF[p, POD_MEMORY]
    gpus = (node_NF[n, GPU_FREE] - milli * wanted) * 0.001
    spot = spot_of(prices, typical, node_NF, n, cpu)
    count, idle = spot.devices, spot.idle
    score, device = shared_value(prices, node_NF, n, cpu, memory, gpus) - before[0], -1
    if wanted == 1 and milli < 1000:
        change, device = best_share_device(prices, typical, first, left_ND, spot, milli)
        score += change
    elif wanted > 0:
        score += several_devices(prices, typical, first, left_ND, spot, milli, wanted)
    if spot.level != before[2]:  # the pod takes CPU that typical pods need, also those for devices it does not touch
        score += prices[first + USABLE] * (usable_milli(typical, spot, left_ND) * 0.001 - before[1])
    score += prices[first + IDLE] * idle / MOST_DEVICES
    cpu_share, memory_share = share_of(cpu, node_NF[n, CPU_CAPACITY]), share_of(memory, node_NF[n, MEMORY_CAPACITY])
    score += prices[first + CPU_LEFT] * cpu * prices[SCALES] / MOST_DEVICES + prices[first + MEMORY_LEFT] * memory_share
    score += (prices[first + GPU_LEFT] * gpus + prices[first + SIZE] * count) / MOST_DEVICES
    score += prices[first + IMBALANCE] * abs(cpu_share - share_of(gpus, count))
    score += prices[first + SKEW] * (memory_share - cpu_share)
    if node_NF[n, CPU_FREE] == node_NF[n, CPU_CAPACITY] and idle == count:
        score += prices[first + UNTOUCHED]
    if gpus > 0.0:
        score += prices[first + CPU_PER_GPU] * min(cpu * prices[SCALES] / gpus, MOST_CPU_RATIO)
    return score, device
