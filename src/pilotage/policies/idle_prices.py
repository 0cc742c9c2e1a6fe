"""What a number of idle devices on a node is worth to pods with several devices, from the numbers they ask for."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pilotage.model.cluster import MAX_DEVICES
from pilotage.model.workload import FloatArray

FUNCTIONS = ("any", "fits", "usable", "waste_of_random_filling", "waste_of_best_filling")
UNIT = 8  # devices


@lru_cache(maxsize=64)  # a rehearsal asks for the same many times
def idle_functions(several: tuple[int, ...], gpu: tuple[float, ...]) -> FloatArray:
    """FUNCTIONS by idle devices. `gpu`: share of the GPU that pods with each of `several` devices ask for."""
    idle_I = np.arange(MAX_DEVICES + 1)
    fits, random_waste, least_waste = np.zeros((3, MAX_DEVICES + 1))
    for idle in idle_I.tolist():
        possible = [(number, share / number) for number, share in zip(several, gpu, strict=True) if number <= idle]
        pods = sum(share for _, share in possible)
        fits[idle] = sum(share for number, share in zip(several, gpu, strict=True) if number <= idle)
        random_waste[idle] = sum(share * random_waste[idle - number] for number, share in possible) / (pods or 1)
        least_waste[idle] = min((least_waste[idle - number] for number, _ in possible), default=0.0)
        if not possible and several:
            random_waste[idle] = least_waste[idle] = idle / UNIT
    functions = np.array([idle_I > 0, fits, fits * idle_I / UNIT, random_waste, least_waste])
    functions.flags.writeable = False
    return functions
