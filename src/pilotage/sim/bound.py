"""The packing bound: how much GPU no policy can allocate more of, for one arrival order.

Share pods are packed fractionally into devices of 1000 milli (an arc-flow linear program), whole-device pods take the
other devices. A scheduler may not turn away a pod that fits, so the pods that arrive early are mandatory and all later
ones optional. CPU, memory, node boundaries, GPU models and "distinct devices" are ignored, which can only raise the
result: no run that accepts the mandatory pods allocates more.

Axes: P pods in arrival order, S distinct share sizes (largest first), A arcs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np

from pilotage.model.errors import InputError, PilotageError
from pilotage.model.workload import GPU_MILLI, BoolArray, IntArray, Workload, within_load
from pilotage.policies.linear_program import LinearProgram, joined, solve

SMALL_PROGRAM = 5000  # arcs; simplex is ten times quicker below, the interior point above
DIGITS = 6  # of a percentage: what the solver's tolerance of 1e-7 leaves, so that stored results are the same bytes


@dataclass(frozen=True, slots=True)
class PackingBound:
    """The bound of one arrival order, in percent of the GPU capacity."""

    forced_load_percent: float
    bound_percent: float | None
    """None when the mandatory pods cannot be packed even fractionally: every run loses some of them, so there is
    no bound to compare with, and a lower forced load has to be chosen."""


class _Demand(NamedTuple):
    """How many devices' worth of each size must and may be packed. An item is one device of one pod."""

    size_S: IntArray  # milli, strictly decreasing, below 1000
    mandatory_S: IntArray
    offered_S: IntArray  # the mandatory items and the optional ones
    mandatory_whole: int
    offered_whole: int


class _Arcs(NamedTuple):
    """An arc puts one item of size `item_A` into a device that is filled up to `tail_A` milli."""

    tail_A: IntArray
    item_A: IntArray  # index into size_S


def packing_bound(workload: Workload, devices: int, forced_load: float) -> PackingBound:
    """Bound the GPU allocation of every run over `workload` that accepts the mandatory pods.

    `workload` has its rows in arrival order, tuned (it is everything that arrives, not the trace file); `devices` is
    the number of GPU devices of the cluster; `forced_load` is L0 as a fraction of their capacity (0.9158, not 91.58).
    Mandatory are the pods of `arrived_within` that name no GPU model.
    """
    milli = _most_allocated(_demand(workload, arrived_within(workload, devices, forced_load)), devices)
    percent = None if milli is None else round(100 * milli / (GPU_MILLI * devices), DIGITS)
    return PackingBound(forced_load_percent=round(100 * forced_load, DIGITS), bound_percent=percent)


def arrived_within(workload: Workload, devices: int, load: float) -> BoolArray:
    """Which pods arrive while the arrived load, they themselves included, is at most `load` of the GPU capacity."""
    if devices < 1:
        raise InputError(f"{devices} GPU devices", field="devices", expected="at least 1: a bound is a share of them")
    if not isfinite(load) or load < 0:
        raise InputError(f"a load of {load}", field="forced_load", expected="a fraction of the GPU capacity, as 0.9158")
    return within_load(workload.gpu_milli_P, devices, load)


def _demand(workload: Workload, arrived_P: BoolArray) -> _Demand:
    shapes = len(workload.shapes)
    offered = np.bincount(workload.shape_P, minlength=shapes)
    arrived = np.bincount(workload.shape_P[arrived_P], minlength=shapes)
    items_by_size: dict[int, tuple[int, int]] = {}
    for shape, pods, early in zip(workload.shapes, offered.tolist(), arrived.tolist(), strict=True):
        if pods == 0 or shape.total_gpu_milli == 0:
            continue
        if not 0 < shape.gpu_milli <= GPU_MILLI:
            raise InputError(f"a pod asks for {shape.gpu_milli} milli of a GPU", field="gpu_milli", expected="1..1000")
        mandatory = 0 if shape.gpu_models.strip("|") else early
        must, may = items_by_size.get(shape.gpu_milli, (0, 0))
        items_by_size[shape.gpu_milli] = must + mandatory * shape.gpu_count, may + pods * shape.gpu_count
    mandatory_whole, offered_whole = items_by_size.pop(GPU_MILLI, (0, 0))
    sizes = sorted(items_by_size, reverse=True)
    return _Demand(
        size_S=np.array(sizes, np.int64),
        mandatory_S=np.array([items_by_size[size][0] for size in sizes], np.int64),
        offered_S=np.array([items_by_size[size][1] for size in sizes], np.int64),
        mandatory_whole=mandatory_whole,
        offered_whole=offered_whole,
    )


def _arcs(size_S: IntArray) -> _Arcs:
    """Every arc that a device filled with its largest items first can use.

    Each set of items is such a path, so nothing is lost, and every path is a set of items that fits, so nothing is
    gained. The positions are sums of sizes, thus multiples of their greatest common divisor without computing it.
    """
    filled = np.zeros(GPU_MILLI, np.bool_)  # filled[m]: items of the sizes so far can add up to m milli
    filled[0] = True
    tails, items = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for s, size in enumerate(size_S.tolist()):
        steps = -(-GPU_MILLI // size)
        table = np.zeros(steps * size, np.bool_)  # one row per further item of this size
        table[:GPU_MILLI] = filled
        filled = np.logical_or.accumulate(table.reshape(steps, size), axis=0).reshape(-1)[:GPU_MILLI]
        tail = np.flatnonzero(filled[: GPU_MILLI - size + 1])
        tails.append(tail)
        items.append(np.full(len(tail), s, np.int64))
    return _Arcs(tail_A=np.concatenate(tails), item_A=np.concatenate(items))


def _most_allocated(demand: _Demand, devices: int) -> float | None:
    """The milli of the best fractional packing, None when the mandatory items do not fit.

    Variables: the flow on every arc, the packed items of every size, the whole devices. Flow that leaves a position is
    at most the flow that enters it (the rest of the device is lost), flow that leaves position 0 is shared devices.
    """
    arcs = _arcs(demand.size_S)
    head_A = arcs.tail_A + demand.size_S[arcs.item_A]
    A, S = len(arcs.tail_A), len(demand.size_S)
    columns = A + S + 1
    # Positions where no arc starts need no row: what enters them is lost. Position 0 has the row of all devices.
    positions = np.union1d(arcs.tail_A, [0])
    row_of = np.full(GPU_MILLI + 1, -1)
    row_of[positions] = np.arange(len(positions))
    goes_on = np.flatnonzero(row_of[head_A] >= 0)
    entries = joined(
        (np.ones(A), row_of[arcs.tail_A], np.arange(A)),
        (-np.ones(len(goes_on)), row_of[head_A[goes_on]], goes_on),
        (np.ones(1), np.zeros(1, np.int64), np.array([columns - 1])),
        (np.ones(A), len(positions) + arcs.item_A, np.arange(A)),
        (-np.ones(S), len(positions) + np.arange(S), A + np.arange(S)),
    )
    limit = np.zeros(len(positions) + S)
    limit[0] = devices
    program = LinearProgram(
        cost_C=np.concatenate([np.zeros(A), -demand.size_S, [-GPU_MILLI]]),
        entries=entries,
        limit_R=limit,
        equalities=S,
        low_C=np.concatenate([np.zeros(A), demand.mandatory_S, [demand.mandatory_whole]]),
        high_C=np.concatenate([np.full(A, devices), demand.offered_S, [demand.offered_whole]]).astype(np.float64),
    )
    best = solve(program, "choose" if A < SMALL_PROGRAM else "ipm")
    if best.status == "infeasible":
        return None
    if best.status == "failed":
        raise PilotageError(f"the packing bound of {S} share sizes on {devices} devices: {best.message}")
    return -best.objective
