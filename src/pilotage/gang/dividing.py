"""Exact divisions of a superstep and of a window, with limits per task and per node; the bound that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pilotage.gang.problem import Budget, scratch_for
from pilotage.kernels.gang_division import Room
from pilotage.kernels.gang_exact import Box, bound_supersteps, divide_exactly
from pilotage.kernels.gang_window import Search, divide_window
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray

TOLERANCE: Final = 0.001  # of its time, that the division of a window may take more than the best one
WORK: Final = 2 * 10**10  # additions after which a search ends with what it has: some ten seconds
_OPEN: Final = 400  # parts of all divisions at once: each is split in two, one of which is looked at first


@dataclass(frozen=True)
class TaskLimit:
    """What one task may get: milli CPU at the most, and the node it is on."""

    most: int | None = None
    node: str = ""


def room_of(budget: Budget, limits: Sequence[TaskLimit], nodes: dict[str, int] | None = None) -> Room:
    """Limits as units. Nodes without a capacity (milli CPU) have no limit; every task has the least share already."""
    units = budget.units(len(limits))
    names = list(dict.fromkeys(limit.node for limit in limits))
    capacity = nodes or {}
    most_J = [units if limit.most is None else (limit.most - budget.least) // budget.step for limit in limits]
    for limit, most in zip(limits, most_J, strict=True):
        if most < 0:
            raise InputError(f"is {limit.most}", field="most", expected=f"at least the least share, {budget.least}")
    most_N = []
    for name in names:
        on_it = sum(limit.node == name for limit in limits)
        left = capacity[name] - on_it * budget.least if name in capacity else units * budget.step
        if left < 0:
            raise InputError(
                f"{name} has {capacity[name]}", field="nodes", expected=f"{on_it} x {budget.least} for its tasks"
            )
        most_N.append(left // budget.step)
    node_J = [names.index(limit.node) for limit in limits]
    return Room(units, np.minimum(most_J, units), np.array(node_J), np.array(most_N))


def exact_division(duration_JC: FloatArray, room: Room) -> tuple[IntArray, float]:
    """Units of each task and the time of the superstep; what is left of the budget is not given away."""
    J = len(duration_JC)
    unit_J, spare_J, used_N = np.zeros(J, np.int64), np.zeros(J, np.int64), np.zeros(len(room.most_N), np.int64)
    seconds = divide_exactly(duration_JC, room, _any(room), spare_J, used_N, unit_J)
    return unit_J, float(seconds)


@dataclass(frozen=True)
class WindowDivision:
    """One division for several supersteps: units of each task, the time of all, and what no division beats."""

    unit_J: IntArray
    seconds: float
    bound: float

    @property
    def gap(self) -> float:
        """How much longer than the best one it takes at the most, as a part of its time."""
        return 1.0 - self.bound / self.seconds if self.seconds else 0.0


def exact_window(
    duration_HJC: FloatArray, room: Room, tolerance: float = TOLERANCE, work: int = WORK
) -> WindowDivision:
    """The division with the least sum of the supersteps' times, to a tolerance; never worse than the published one.

    A search that is hard ends with what it has after so much `work`: `gap` says what was reached.
    """
    H, J, C = duration_HJC.shape
    N = len(room.most_N)
    search = Search(
        weight_HJ=np.zeros((H, J)),
        cost_JU=np.zeros((J, C)),
        node_U=np.zeros(C),
        next_U=np.zeros(C),
        all_U=np.zeros(C),
        units_JU=np.zeros((J, C), np.int64),
        units_NU=np.zeros((N, C), np.int64),
        low_BJ=np.zeros((_OPEN, J), np.int64),
        high_BJ=np.zeros((_OPEN, J), np.int64),
        bound_B=np.zeros(_OPEN),
        used_N=np.zeros(N, np.int64),
        trial_J=np.zeros(J, np.int64),
        spare_J=np.zeros(J, np.int64),
        step_J=np.zeros(J, np.int64),
        spent=np.zeros(1, np.int64),
        greedy=scratch_for(H, room),
    )
    unit_J = np.zeros(J, np.int64)
    bound = divide_window(np.ascontiguousarray(duration_HJC), room, tolerance, work // (J * C * C), search, unit_J)
    seconds = float(duration_HJC[:, np.arange(J), unit_J].max(axis=1).sum())
    return WindowDivision(unit_J, seconds, float(bound))


def even_units(room: Room) -> IntArray:
    """The same for every task, no more than it or its node may have; what does not come out even goes to the first."""
    J = len(room.most_J)
    each, left = divmod(room.units, J)
    unit_J, used_N = np.zeros(J, np.int64), np.zeros(len(room.most_N), np.int64)
    for given in range(each + 1):
        for j in range(J if given < each else left):
            node = room.node_J[j]
            if unit_J[j] < room.most_J[j] and used_N[node] < room.most_N[node]:
                unit_J[j] += 1
                used_N[node] += 1
    return unit_J


def bound(actual_TJC: FloatArray, room: Room) -> FloatArray:
    """Seconds of each superstep that no division beats."""
    T, J, _ = actual_TJC.shape
    seconds_T = np.zeros(T)
    scratch_J, used_N = np.zeros(J, np.int64), np.zeros(len(room.most_N), np.int64)
    bound_supersteps(actual_TJC, room, _any(room), scratch_J, used_N, scratch_J.copy(), seconds_T)
    return seconds_T


def _any(room: Room) -> Box:
    """All divisions."""
    return Box(np.zeros(len(room.most_J), np.int64), room.most_J)
