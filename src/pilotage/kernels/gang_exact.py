"""The exact division of one superstep: no other has a faster slowest task. Bisection over the time of the superstep.

To be done within a time, a task needs a certain number of units, the fewest with which it is (durations need not fall
with every unit); times at which all needs fit are found by halving. Axes as in gang_division.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotage.kernels.compiling import inner, kernel
from pilotage.kernels.gang_division import Room, slowest
from pilotage.model.workload import FloatArray, IntArray

HALVINGS = 60


class Box(NamedTuple):
    """Divisions that are looked at: from `low_J` to `high_J` units."""

    low_J: IntArray
    high_J: IntArray


@inner
def needs(duration_JC: FloatArray, limit: float, room: Room, box: Box, unit_J: IntArray, used_N: IntArray) -> bool:
    """The fewest units of a box with which every task keeps within a time; whether there is room for them."""
    used_N[:] = 0
    total = 0
    for j in range(unit_J.shape[0]):
        c = box.low_J[j]
        while c <= box.high_J[j] and not duration_JC[j, c] <= limit:
            c += 1
        if c > box.high_J[j]:
            return False
        unit_J[j] = c
        total += c
        used_N[room.node_J[j]] += c
        if total > room.units or used_N[room.node_J[j]] > room.most_N[room.node_J[j]]:
            return False
    return True


@kernel
def divide_exactly(
    duration_JC: FloatArray, room: Room, box: Box, spare_J: IntArray, used_N: IntArray, unit_J: IntArray
) -> float:
    """The division of a box with the least time of the superstep, and that time. Units beyond the needs are not given.

    The least units of the box must fit.
    """
    for k in range(unit_J.shape[0]):
        unit_J[k] = box.low_J[k]
    j = slowest(duration_JC, unit_J)
    low, high = 0.0, duration_JC[j, unit_J[j]]
    needs(duration_JC, high, room, box, unit_J, used_N)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if needs(duration_JC, middle, room, box, spare_J, used_N):
            for k in range(unit_J.shape[0]):
                unit_J[k] = spare_J[k]
            j = slowest(duration_JC, unit_J)
            high = duration_JC[j, unit_J[j]]
        else:
            low = middle
    j = slowest(duration_JC, unit_J)
    return duration_JC[j, unit_J[j]]


@kernel
def bound_supersteps(
    actual_TJC: FloatArray,
    room: Room,
    box: Box,
    spare_J: IntArray,
    used_N: IntArray,
    unit_J: IntArray,
    seconds_T: FloatArray,
) -> None:
    """The time of each superstep under its own exact division: no controller is faster, penalties left aside."""
    for t in range(actual_TJC.shape[0]):
        seconds_T[t] = divide_exactly(actual_TJC[t], room, box, spare_J, used_N, unit_J)
