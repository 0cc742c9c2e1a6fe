"""A budget divided for many possible futures at once, and when to divide it anew.

Axes as in gang_division, and: G sizes on a grid, F futures, X possible steps (a step ahead, then its futures).
Durations stand task by task, unit by unit, along the grid of sizes: a division asks for one row per task, so what is
read while it is made stays in the fastest memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pilotage.kernels.compiling import inlined, inner, kernel
from pilotage.kernels.gang_control import Course, copy_units, happen, plan_windows
from pilotage.kernels.gang_division import Room, may_have_more, window_index
from pilotage.model.workload import FloatArray, IntArray

PlaceArray = npt.NDArray[np.int16]  # places on the grid


class Grid(NamedTuple):
    """Durations on a grid of sizes from the smallest to the largest."""

    duration_JCG: FloatArray
    smallest: float
    largest: float


class Futures(NamedTuple):
    """What is forecast, what was missed at some moments of the past, and how much that counts."""

    forecast_HJ: FloatArray
    missed_FHJ: FloatArray
    spread: float


class Limits(NamedTuple):
    """What may be given, and how often units may change hands afterwards."""

    room: Room
    swaps: int


class Scratch(NamedTuple):
    """Memory for one division at a time."""

    place_JX: PlaceArray
    slow_X: IntArray  # the slowest task of a possible step
    held_X: FloatArray  # its duration
    gain_X: FloatArray  # what a unit more would save there
    gain_J: FloatArray
    steps_J: IntArray  # possible steps in which a task is the slowest
    used_N: IntArray  # units of the tasks of a node


@inlined
def slowest_there(duration_JCG: FloatArray, place_JX: PlaceArray, x: int, unit_J: IntArray) -> int:
    """The slowest task of a possible step, the first among equals."""
    worst = 0
    most = duration_JCG[0, unit_J[0], place_JX[0, x]]
    for j in range(1, unit_J.shape[0]):
        seconds = duration_JCG[j, unit_J[j], place_JX[j, x]]
        if seconds > most:
            worst, most = j, seconds
    return worst


@inner
def sum_over(duration_JCG: FloatArray, place_JX: PlaceArray, first: int, end: int, unit_J: IntArray) -> float:
    """Time of possible steps under one division."""
    total = 0.0
    for x in range(first, end):
        j = slowest_there(duration_JCG, place_JX, x, unit_J)
        total += duration_JCG[j, unit_J[j], place_JX[j, x]]
    return total


@inlined
def look_at(duration_JCG: FloatArray, place_JX: PlaceArray, x: int, j: int, unit_J: IntArray, scratch: Scratch) -> None:
    """Notes that a task is the slowest of a possible step."""
    scratch.slow_X[x] = j
    scratch.held_X[x] = duration_JCG[j, unit_J[j], place_JX[j, x]]
    more = min(unit_J[j] + 1, duration_JCG.shape[1] - 1)
    scratch.gain_X[x] = scratch.held_X[x] - duration_JCG[j, more, place_JX[j, x]]
    scratch.gain_J[j] += scratch.gain_X[x]
    scratch.steps_J[j] += 1


@inlined
def neediest(room: Room, unit_J: IntArray, exchanged: bool, scratch: Scratch) -> int:
    """The task that gains most from a unit more; -1 where none may have one.

    A full node is no hindrance to a unit that another task of it gives (`exchanged`).
    """
    best = -1
    for j in range(unit_J.shape[0]):
        may = unit_J[j] < room.most_J[j] if exchanged else may_have_more(room, j, unit_J, scratch.used_N)
        if may and scratch.steps_J[j] > 0 and (best < 0 or scratch.gain_J[j] > scratch.gain_J[best]):
            best = j
    return best


@inner
def give_units(
    duration_JCG: FloatArray, place_JX: PlaceArray, steps: int, limits: Limits, unit_J: IntArray, scratch: Scratch
) -> None:
    """Unit by unit to the task that gains most, summed over the possible steps in which it is the slowest."""
    unit_J[:] = 0
    scratch.used_N[:] = 0
    scratch.gain_J[:] = 0.0
    scratch.steps_J[:] = 0
    for x in range(steps):
        look_at(duration_JCG, place_JX, x, slowest_there(duration_JCG, place_JX, x, unit_J), unit_J, scratch)
    for _ in range(limits.room.units):
        best = neediest(limits.room, unit_J, False, scratch)
        if best < 0:
            break
        unit_J[best] += 1
        scratch.used_N[limits.room.node_J[best]] += 1
        for x in range(steps):
            before = scratch.slow_X[x]
            changed = duration_JCG[best, unit_J[best], place_JX[best, x]]
            if before == best or changed > scratch.held_X[x]:  # measured durations are not monotone
                scratch.gain_J[before] -= scratch.gain_X[x]
                scratch.steps_J[before] -= 1
                j = slowest_there(duration_JCG, place_JX, x, unit_J) if before == best else best
                look_at(duration_JCG, place_JX, x, j, unit_J, scratch)


@inner
def swap_units(
    duration_JCG: FloatArray, place_JX: PlaceArray, steps: int, limits: Limits, unit_J: IntArray, scratch: Scratch
) -> float:
    """Lets units change hands as long as all possible steps take less time for it; that time.

    What was given early, when all had little, may be of more use elsewhere in the end. `scratch.used_N` is that of the
    division.
    """
    room, used_N = limits.room, scratch.used_N
    least = sum_over(duration_JCG, place_JX, 0, steps, unit_J)
    for _ in range(limits.swaps):
        scratch.gain_J[:] = 0.0
        scratch.steps_J[:] = 0
        for x in range(steps):
            look_at(duration_JCG, place_JX, x, slowest_there(duration_JCG, place_JX, x, unit_J), unit_J, scratch)
        taker = neediest(room, unit_J, True, scratch)
        giver = -1
        if taker >= 0:
            node = room.node_J[taker]
            unit_J[taker] += 1
            for j in range(unit_J.shape[0]):
                fits = used_N[node] < room.most_N[node] or room.node_J[j] == node
                if j != taker and unit_J[j] > 0 and fits:
                    unit_J[j] -= 1
                    total = sum_over(duration_JCG, place_JX, 0, steps, unit_J)
                    unit_J[j] += 1
                    if total < least:
                        least, giver = total, j
            if giver >= 0:
                unit_J[giver] -= 1
                used_N[room.node_J[giver]] -= 1
                used_N[node] += 1
            else:
                unit_J[taker] -= 1
        if giver < 0:
            break
    return least


@inner
def place_futures(grid: Grid, seen: Futures, start: int, place_JX: PlaceArray) -> None:
    """Possible sizes of the steps from `start` on, as places on the grid.

    A step is varied by what was missed so many steps after a division would be made: whoever divides at `start` knows
    then what is known then.
    """
    futures, last = seen.missed_FHJ.shape[0], grid.duration_JCG.shape[2] - 1
    scale = last / (grid.largest - grid.smallest)
    for h in range(start, seen.forecast_HJ.shape[0]):
        for j in range(seen.forecast_HJ.shape[1]):
            for f in range(futures):
                size = seen.forecast_HJ[h, j] + seen.spread * seen.missed_FHJ[f, h - start, j]
                place = (min(max(size, grid.smallest), grid.largest) - grid.smallest) * scale
                place_JX[j, (h - start) * futures + f] = min(int(place + 0.5), last)


@kernel
def foresee(
    grid: Grid,
    seen: Futures,
    limits: Limits,
    scratch: Scratch,
    place_JX: PlaceArray,
    unit_QJ: IntArray,
    estimate_Q: FloatArray,
) -> None:
    """At one superstep: possible sizes (`place_JX`), the division of every window, and its mean time."""
    horizon, futures = seen.forecast_HJ.shape[0], seen.missed_FHJ.shape[0]
    place_futures(grid, seen, 0, place_JX)
    for start in range(horizon):
        place_futures(grid, seen, start, scratch.place_JX)
        for width in range(1, horizon - start + 1):
            q = window_index(start, width, horizon)
            give_units(grid.duration_JCG, scratch.place_JX, width * futures, limits, unit_QJ[q], scratch)
            total = swap_units(grid.duration_JCG, scratch.place_JX, width * futures, limits, unit_QJ[q], scratch)
            estimate_Q[q] = total / futures


class Foreseen(NamedTuple):
    """What is known when planning at each superstep: possible sizes, divisions of all windows, their mean time."""

    place_TJX: PlaceArray
    unit_TQJ: IntArray
    estimate_TQ: FloatArray


class Plan(NamedTuple):
    """How far a controller looks and what a new division costs; memory for what is found."""

    horizon: int
    penalty: float
    cost_H: FloatArray
    width_H: IntArray


@kernel
def decide_foreseen(
    duration_JCG: FloatArray,
    place_JX: PlaceArray,
    estimate_Q: FloatArray,
    current_J: IntArray,
    may_keep: bool,
    left: int,
    stored: int,
    plan: Plan,
) -> int:
    """How many supersteps the best window from here on has; 0 = keep what is."""
    futures, horizon = place_JX.shape[1] // stored, min(plan.horizon, left)
    plan_windows(estimate_Q, left, horizon, stored, 1.0, plan.penalty, plan.cost_H, plan.width_H)
    if may_keep:
        spent = 0.0
        for width in range(1, horizon + 1):
            spent += sum_over(duration_JCG, place_JX, (width - 1) * futures, width * futures, current_J) / futures
            behind = plan.cost_H[width] + plan.penalty if width < horizon else 0.0
            if spent + behind < plan.cost_H[0] + plan.penalty:
                return 0
    return plan.width_H[0]


@kernel
def run_foreseen(
    duration_JCG: FloatArray, known: Foreseen, actual_TJC: FloatArray, stored: int, plan: Plan, course: Course
) -> None:
    """All supersteps one after the other. `stored` is the number of steps ahead of the windows in `known`."""
    length = actual_TJC.shape[0]
    for t in range(length):
        before_J = course.unit_TJ[max(t - 1, 0)]
        width = decide_foreseen(
            duration_JCG, known.place_TJX[t], known.estimate_TQ[t], before_J, t > 0, length - t, stored, plan
        )
        course.divided_T[t] = width > 0
        if width == 0:
            copy_units(before_J, course.unit_TJ[t])
        else:
            copy_units(known.unit_TQJ[t, window_index(0, width, stored)], course.unit_TJ[t])
        happen(actual_TJC[t], course, t)
