"""What learned scorers see: a row of comparable numbers per candidate node, and one for the pod.

Every number is a share, a difference of shares or a ratio to the cluster's mean, so a network that was trained on ten
nodes of one size makes sense of a thousand of another. Simulator, environments and services use this one encoder.
The order is version 1 of the inputs: columns may be appended, never moved or given another meaning.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.kernels.features import (
    CPU_CAPACITY,
    CPU_FREE,
    GANG_IN_RACK,
    GPU_COUNT,
    GPU_FREE,
    GPU_IDLE,
    GPU_LARGEST,
    LOAD,
    MEMORY_CAPACITY,
    MEMORY_FREE,
    POD_CPU,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
    POD_GPU_COUNT,
    POD_GPU_MILLI,
    POD_MEMORY,
    PODS_CAPACITY,
    PODS_FREE,
)
from pilotage.model.workload import FloatArray, IntArray

Float32Array = npt.NDArray[np.float32]

INPUTS_VERSION = 1
NODE_INPUTS = (
    "cpu_used",  # share of the node's capacity, before the placement
    "cpu_used_after",  # and after it
    "memory_used",
    "memory_used_after",
    "pods_used_after",
    "gpu_used",
    "gpu_used_after",
    "gpu_idle",  # share of the devices that nobody uses
    "gpu_largest",  # most that is left on one device
    "device_left",  # a share pod: left after it on the fullest device that takes it
    "has_gpu",
    "load",  # measured
    "gang_in_rack",  # share of its gang's placed pods that are in the node's rack
    "cpu_above_mean",  # use after the placement, minus the mean use of all nodes before it
    "memory_above_mean",
    "gpu_above_mean",
    "load_above_mean",
    "size",  # CPU capacity / mean CPU capacity
)
POD_INPUTS = (
    "cpu",  # of the mean node's capacity
    "memory",
    "gpu",  # devices / 8
    "gpu_part",  # of a device; 0 for whole devices
    "several",  # asks for more than one device
    "gang_left",  # pods of its gang that still need a node / 8
)
MOST_DEVICES = 8.0


@inlined_inner
def used_share(free: float, capacity: float, more: float) -> float:
    return (capacity - free + more) / capacity if capacity > 0.0 else 0.0


@inlined_inner
def tightest_left(left_ND: IntArray, n: int, count: int, milli: int) -> float:
    """What a share pod leaves on the fullest device that takes it, in devices; 0 where none does."""
    best = 2000
    for d in range(count):
        if milli <= left_ND[n, d] < best:
            best = left_ND[n, d]
    return (best - milli) / 1000.0 if best < 2000 else 0.0


@kernel
def encode_inputs(
    pod_F: FloatArray, node_NF: FloatArray, left_ND: IntArray, pod_I: Float32Array, node_NI: Float32Array
) -> None:
    """Fills `pod_I` and `node_NI`. A node that takes no pods at all (pods_capacity 0) is not there: its row is 0."""
    milli, wanted = int(pod_F[POD_GPU_MILLI]), int(pod_F[POD_GPU_COUNT])
    gpu = float(milli * wanted)
    there, with_gpu = 0, 0
    cpu_mean, memory_mean, gpu_mean, load_mean, cpu_size, memory_size = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for n in range(node_NF.shape[0]):
        row = node_NF[n]
        if row[PODS_CAPACITY] == 0.0:
            continue
        there += 1
        cpu_mean += used_share(row[CPU_FREE], row[CPU_CAPACITY], 0.0)
        memory_mean += used_share(row[MEMORY_FREE], row[MEMORY_CAPACITY], 0.0)
        load_mean += row[LOAD]
        cpu_size += row[CPU_CAPACITY]
        memory_size += row[MEMORY_CAPACITY]
        if row[GPU_COUNT] > 0.0:
            with_gpu += 1
            gpu_mean += used_share(row[GPU_FREE], 1000.0 * row[GPU_COUNT], 0.0)
    cpu_mean, memory_mean, load_mean = cpu_mean / max(there, 1), memory_mean / max(there, 1), load_mean / max(there, 1)
    cpu_size, memory_size = max(cpu_size / max(there, 1), 1.0), max(memory_size / max(there, 1), 1.0)
    gpu_mean /= max(with_gpu, 1)
    pod_I[0] = pod_F[POD_CPU] / cpu_size
    pod_I[1] = pod_F[POD_MEMORY] / memory_size
    pod_I[2] = gpu / (1000.0 * MOST_DEVICES)
    pod_I[3] = milli / 1000.0 if milli < 1000 else 0.0
    pod_I[4] = wanted > 1
    pod_I[5] = pod_F[POD_GANG_LEFT] / MOST_DEVICES
    for n in range(node_NF.shape[0]):
        row, out = node_NF[n], node_NI[n]
        if row[PODS_CAPACITY] == 0.0:
            out[:] = 0.0
            continue
        cpu_after = used_share(row[CPU_FREE], row[CPU_CAPACITY], pod_F[POD_CPU])
        memory_after = used_share(row[MEMORY_FREE], row[MEMORY_CAPACITY], pod_F[POD_MEMORY])
        count = row[GPU_COUNT]
        gpu_after = used_share(row[GPU_FREE], 1000.0 * count, gpu)
        out[0] = used_share(row[CPU_FREE], row[CPU_CAPACITY], 0.0)
        out[1] = cpu_after
        out[2] = used_share(row[MEMORY_FREE], row[MEMORY_CAPACITY], 0.0)
        out[3] = memory_after
        out[4] = used_share(row[PODS_FREE], row[PODS_CAPACITY], 1.0)
        out[5] = used_share(row[GPU_FREE], 1000.0 * count, 0.0)
        out[6] = gpu_after
        out[7] = row[GPU_IDLE] / count if count > 0.0 else 0.0
        out[8] = row[GPU_LARGEST] / 1000.0
        out[9] = tightest_left(left_ND, n, int(count), milli) if wanted == 1 and milli < 1000 else 0.0
        out[10] = count > 0.0
        out[11] = row[LOAD]
        out[12] = row[GANG_IN_RACK] / pod_F[POD_GANG_PLACED] if pod_F[POD_GANG_PLACED] > 0.0 else 0.0
        out[13] = cpu_after - cpu_mean
        out[14] = memory_after - memory_mean
        out[15] = gpu_after - gpu_mean if count > 0.0 else 0.0
        out[16] = row[LOAD] - load_mean
        out[17] = row[CPU_CAPACITY] / cpu_size
