"""How much of a node's free GPU the typical pods could not use: the measure of FGD (USENIX ATC'23).

Two ways to the same amount F. `amounts` adds typical pod by typical pod in the published order, so that every bit
agrees with the published simulator. `quick_amount` gets F from tables in one look-up per device: it is exact in real
numbers but rounds differently. Whoever turns F into an integer uses the quick way where rounding cannot matter and
the published way next to the steps (see scoring.fgd_score).

    F = G * sum_t p_t  -  sum over devices left_d * H[model, cpu class, class of left_d]  -  W[model, cpu class, idle]

G is the free GPU milli; H adds the weights p_t of the one-device typical pods that fit on such a device with that
much CPU; W holds the same for pods of several whole devices, which depend on the number of idle devices only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.model.workload import BoolArray, FloatArray, IntArray

# Amount vector, in the published order.
CATEGORIES = (
    "q1_lack_both",
    "q2_lack_gpu",
    "q3_satisfied",
    "q4_lack_cpu",
    "xl_satisfied",
    "xr_lack_cpu",
    "no_access",
)
LACK_BOTH, LACK_GPU, SATISFIED, LACK_CPU, XL_SATISFIED, XR_LACK_CPU, NO_ACCESS = range(7)


class Typical(NamedTuple):
    """Typical pods (axis T) and the tables made of them. Models are shifted by one: row 0 is "no model"."""

    cpu_T: IntArray
    milli_T: IntArray
    count_T: IntArray
    weight_T: FloatArray
    access_TM: BoolArray
    cpu_levels_C: IntArray  # distinct CPU requests, ascending
    device_class_L: IntArray  # class of "milli left on a device", 0..1000
    share_value_MCL: FloatArray  # H above
    whole_value_MCI: FloatArray  # W above
    weight_sum: float
    tables_complete: bool  # False when some typical pod asks for parts of several devices: no table holds that


def typical_tables(
    cpu_T: IntArray, milli_T: IntArray, count_T: IntArray, weight_T: FloatArray, access_TM: BoolArray, devices: int
) -> Typical:
    """Builds the tables of `quick_amount` for nodes of at most `devices` devices."""
    cpu_levels_C = np.unique(cpu_T)
    single = (count_T == 1) & (milli_T > 0)
    several = (count_T > 1) & (milli_T == 1000)
    sizes = np.unique(milli_T[single])
    device_class_L = np.searchsorted(sizes, np.arange(1001), side="right")
    enough_cpu_CT = np.arange(len(cpu_levels_C) + 1)[:, None] > np.searchsorted(cpu_levels_C, cpu_T)[None, :]
    usable_MCT = access_TM.T[:, None, :] & enough_cpu_CT[None]
    fits_LT = np.arange(len(sizes) + 1)[:, None] > np.searchsorted(sizes, milli_T)[None, :]
    idle_I = np.arange(devices + 1)
    fits_IT = idle_I[:, None] >= count_T[None, :]
    return Typical(
        cpu_T=cpu_T,
        milli_T=milli_T,
        count_T=count_T,
        weight_T=weight_T,
        access_TM=access_TM,
        cpu_levels_C=cpu_levels_C,
        device_class_L=device_class_L.astype(np.int64),
        # einsum picks a memory layout by the sizes, and every layout would be another type to compile for.
        share_value_MCL=np.ascontiguousarray(np.einsum("mct,lt,t->mcl", usable_MCT, fits_LT, weight_T * single)),
        whole_value_MCI=np.ascontiguousarray(
            np.einsum("mct,it,t->mci", usable_MCT, fits_IT, weight_T * several) * 1000.0 * idle_I
        ),
        weight_sum=float(weight_T.sum()),
        tables_complete=bool(np.all(single | several | (milli_T == 0))),
    )


@inlined_inner
def cpu_class(typical: Typical, cpu: int) -> int:
    """How many of the typical CPU levels fit into `cpu`. Equal class and devices mean equal amounts, to the bit."""
    low, high = 0, typical.cpu_levels_C.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if typical.cpu_levels_C[middle] <= cpu:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def quick_amount(typical: Typical, model: int, cpu: int, left_ND: IntArray, n: int, count: int) -> float:
    """F of a node, from the tables."""
    level = cpu_class(typical, cpu)
    used, free, idle = 0.0, 0, 0
    for d in range(count):
        left = left_ND[n, d]
        free += left
        idle += left == 1000
        used += left * typical.share_value_MCL[model + 1, level, typical.device_class_L[left]]
    return free * typical.weight_sum - used - typical.whole_value_MCI[model + 1, level, idle]


@kernel
def amounts(
    typical: Typical, model: int, cpu: int, left_ND: IntArray, n: int, count: int, devices: int, milli: int
) -> tuple[float, float, float, float, float, float, float]:
    """The seven amounts of a node once `milli` has been taken from each of its `devices` (a bit mask)."""
    free = 0
    for d in range(count):
        free += left_ND[n, d] - milli * ((devices >> d) & 1)
    q1, q2, q3, q4, xl, xr, no = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(typical.cpu_T.shape[0]):
        weight = typical.weight_T[t]
        enough_cpu = cpu >= typical.cpu_T[t]
        wanted = typical.milli_T[t]
        if wanted == 0:
            if enough_cpu:
                xl += weight * free
            else:
                xr += weight * free
            continue
        if not typical.access_TM[t, model + 1]:
            no += weight * free
            continue
        fitting, too_small = 0, 0
        for d in range(count):
            left = left_ND[n, d] - milli * ((devices >> d) & 1)
            if left >= wanted:
                fitting += 1
            else:
                too_small += left
        if fitting >= typical.count_T[t]:
            if enough_cpu:
                q2 += weight * too_small
                q3 += weight * (free - too_small)
            else:
                q4 += weight * free
        elif enough_cpu:
            q2 += weight * free
        else:
            q1 += weight * free
    return q1, q2, q3, q4, xl, xr, no


@kernel
def amount(
    typical: Typical, model: int, cpu: int, left_ND: IntArray, n: int, count: int, devices: int, milli: int
) -> float:
    """F by the published order of additions: every category but the satisfied one."""
    q1, q2, _, q4, xl, xr, no = amounts(typical, model, cpu, left_ND, n, count, devices, milli)
    return q1 + q2 + q4 + xl + xr + no
