"""Durations of windows to try dividers on, and whether a division keeps to its limits."""

from __future__ import annotations

import numpy as np

from pilotage.kernels.gang_division import Room
from pilotage.model.workload import FloatArray, IntArray


def tables(rng: np.random.Generator, steps: int, tasks: int, units: int, shape: str) -> FloatArray:
    """Durations by step, task and units."""
    duration_HJC = rng.uniform(1, 20, (steps, tasks, units + 1))
    if shape in ("falling", "coarse"):
        duration_HJC = -np.sort(-duration_HJC, axis=2)
    if shape == "coarse":
        duration_HJC = np.round(duration_HJC / 5)  # ties
    if shape == "convex":
        work_HJ1 = rng.uniform(1, 20, (steps, tasks, 1))
        duration_HJC = 1.0 + work_HJ1 / (1.0 + np.arange(units + 1))
    return duration_HJC


def kept(room: Room, unit_J: IntArray) -> bool:
    """Whether a division keeps to the budget, the limits of tasks and the capacities of nodes."""
    used_N = np.bincount(room.node_J, unit_J, minlength=len(room.most_N))
    return bool(
        unit_J.min() >= 0
        and unit_J.sum() <= room.units
        and (unit_J <= room.most_J).all()
        and (used_N <= room.most_N).all()
    )
