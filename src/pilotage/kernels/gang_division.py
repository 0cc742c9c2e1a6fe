"""Division of a budget among tasks that wait for the slowest, for every window of coming supersteps.

Axes: T supersteps, H steps ahead, J tasks, C units of the budget a task has got beyond the least share, Q windows,
N nodes.
A window is (start, width): steps start .. start + width - 1 ahead. All windows within H steps stand in one axis,
those of start 0 first, by width: `window_index`.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotage.kernels.compiling import inlined, inner, kernel
from pilotage.model.workload import FloatArray, IntArray


@inlined
def window_index(start: int, width: int, horizon: int) -> int:
    """Place of a window among all within `horizon` steps."""
    return start * horizon - start * (start - 1) // 2 + width - 1


@inner
def slowest(duration_JC: FloatArray, unit_J: IntArray) -> int:
    """The slowest task, the first among equals."""
    worst = 0
    most = duration_JC[0, unit_J[0]]
    for j in range(1, unit_J.shape[0]):
        if duration_JC[j, unit_J[j]] > most:
            worst, most = j, duration_JC[j, unit_J[j]]
    return worst


@inner
def estimate(duration_HJC: FloatArray, start: int, width: int, unit_J: IntArray) -> float:
    """Time of the supersteps of a window under one division."""
    total = 0.0
    for h in range(start, start + width):
        j = slowest(duration_HJC[h], unit_J)
        total += duration_HJC[h, j, unit_J[j]]
    return total


class Room(NamedTuple):
    """What may be given: units in all, per task, and per node (of the tasks that are on it)."""

    units: int
    most_J: IntArray
    node_J: IntArray
    most_N: IntArray


@inlined
def may_have_more(room: Room, j: int, unit_J: IntArray, used_N: IntArray) -> bool:
    return unit_J[j] < room.most_J[j] and used_N[room.node_J[j]] < room.most_N[room.node_J[j]]


class Scratch(NamedTuple):
    """Memory for one division at a time."""

    used_N: IntArray  # units of the tasks of a node
    gain_J: FloatArray
    seen_J: IntArray
    round_J: IntArray  # the unit at which a task was seen last
    slow_H: IntArray  # the slowest task of a step
    held_H: FloatArray  # its duration
    gain_H: FloatArray  # what a unit more would save there


@inner
def divide_greedily(
    duration_HJC: FloatArray,
    start: int,
    width: int,
    room: Room,
    discount: float,
    unit_J: IntArray,
    scratch: Scratch,
) -> None:
    """The published division: unit by unit to the task that gains most where it is the slowest.

    A task that has reached its limit, or whose node is full, gets no more; where that is so of all that are the slowest
    somewhere, what is left is not given away.

    Gains of later steps count less. Of equal gains the task that was the slowest first in the window gets the unit;
    it is given also where it makes things worse. A unit changes one task, so a step is looked at again only where
    that task was the slowest, or has become it: measured durations are not monotone.
    """
    gain_J, seen_J, round_J = scratch.gain_J, scratch.seen_J, scratch.round_J
    slow_H, held_H, gain_H = scratch.slow_H, scratch.held_H, scratch.gain_H
    units, used_N = room.units, scratch.used_N
    unit_J[:] = 0
    used_N[:] = 0
    if units == 0:
        return
    round_J[:] = -1
    weight = 1.0
    for h in range(start, start + width):
        j = slowest(duration_HJC[h], unit_J)
        slow_H[h], held_H[h] = j, duration_HJC[h, j, 0]
        gain_H[h] = weight * (held_H[h] - duration_HJC[h, j, 1])
        weight *= discount
    for given in range(units):
        seen = 0
        for h in range(start, start + width):
            j = slow_H[h]
            if round_J[j] != given:
                round_J[j] = given
                seen_J[seen] = j
                gain_J[j] = 0.0
                seen += 1
            gain_J[j] += gain_H[h]
        best = -1
        for s in range(seen):
            j = seen_J[s]
            if may_have_more(room, j, unit_J, used_N) and (best < 0 or gain_J[j] > gain_J[best]):
                best = j
        if best < 0:
            break
        unit_J[best] += 1
        used_N[room.node_J[best]] += 1
        if given + 1 == units:
            break
        weight = 1.0
        for h in range(start, start + width):
            j = slow_H[h]
            changed = duration_HJC[h, best, unit_J[best]]
            if j == best or changed > held_H[h] or (changed == held_H[h] and best < j):
                j = slowest(duration_HJC[h], unit_J) if j == best else best
                slow_H[h], held_H[h] = j, duration_HJC[h, j, unit_J[j]]
                gain_H[h] = weight * (held_H[h] - duration_HJC[h, j, unit_J[j] + 1])
            weight *= discount


@kernel
def divide_all_windows_greedily(
    duration_THJC: FloatArray,
    room: Room,
    discount: float,
    scratch: Scratch,
    unit_TQJ: IntArray,
    estimate_TQ: FloatArray,
) -> None:
    """The division of every window at every superstep, and the time it is estimated to take."""
    horizon = duration_THJC.shape[1]
    for t in range(duration_THJC.shape[0]):
        for start in range(horizon):
            for width in range(1, horizon - start + 1):
                q = window_index(start, width, horizon)
                divide_greedily(duration_THJC[t], start, width, room, discount, unit_TQJ[t, q], scratch)
                estimate_TQ[t, q] = estimate(duration_THJC[t], start, width, unit_TQJ[t, q])
