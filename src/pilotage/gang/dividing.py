"""Exact divisions of a superstep, with limits per task and per node, and the bound that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.gang.problem import Budget
from pilotage.kernels.gang_exact import Room, bound_supersteps, divide_exactly
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray


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
    unit_J = np.zeros(J, np.int64)
    seconds = divide_exactly(duration_JC, room, np.zeros(J, np.int64), np.zeros(len(room.most_N), np.int64), unit_J)
    return unit_J, float(seconds)


def bound(actual_TJC: FloatArray, room: Room) -> FloatArray:
    """Seconds of each superstep that no division beats."""
    T, J, _ = actual_TJC.shape
    seconds_T = np.zeros(T)
    scratch_J, used_N = np.zeros(J, np.int64), np.zeros(len(room.most_N), np.int64)
    bound_supersteps(actual_TJC, room, scratch_J, used_N, scratch_J.copy(), seconds_T)
    return seconds_T
