"""Typical pods of a workload: the few shapes that stand for nearly all of its pods (FGD, section 4)."""

from __future__ import annotations

import numpy as np

from pilotage.kernels.fragmentation import Typical, typical_tables
from pilotage.model.cluster import SCORED_CPU_MILLI
from pilotage.model.workload import GPU_MILLI
from pilotage.policies.api import WorkloadMix


def typical_pods(mix: WorkloadMix) -> Typical:
    """Most frequent shapes first; equal ones by descending (CPU, GPU milli, GPUs, models)."""
    settings = mix.typical
    weights: dict[tuple[int, int, int, str], float] = {}
    for shape, count in zip(mix.shapes, mix.count_S.tolist(), strict=True):
        if count == 0 or (shape.gpu_count == 0 and not settings.cpu_pods):
            continue
        one = 1.0
        if settings.gpu_weight > 0 and shape.gpu_milli == GPU_MILLI:
            one += shape.gpu_count * settings.gpu_weight
        key = (shape.cpu_milli or SCORED_CPU_MILLI, shape.gpu_milli, shape.gpu_count, shape.gpu_models)
        weights[key] = weights.get(key, 0.0) + one * count
    ordered = sorted(weights.items(), key=lambda item: (item[1], item[0]), reverse=True)
    total = sum(weights.values())
    taken, reached = 0, 0.0
    wanted = (settings.popularity_percent if settings.popularity_percent > 0 else 60.0) * total / 100.0
    while taken < len(ordered) and reached < wanted:
        block = ordered[taken : taken + (settings.step if settings.step > 0 else 10)]
        reached += sum(weight for _, weight in block)
        taken += len(block)
    chosen = ordered[:taken]
    scale = reached / total if taken < len(ordered) else 1.0
    accepted = [[entry for entry in models.split("|") if entry] for (_, _, _, models), _ in chosen]
    # Column 0 is "node without a model", which a pod that names models may not use.
    access_TM = np.array([[not a, *(not a or m in a for m in mix.models)] for a in accepted], np.bool_)
    columns = np.array([key[:3] for key, _ in chosen], np.int64).reshape(len(chosen), 3)
    return typical_tables(
        cpu_T=np.ascontiguousarray(columns[:, 0]),
        milli_T=np.ascontiguousarray(columns[:, 1]),
        count_T=np.ascontiguousarray(columns[:, 2]),
        weight_T=np.array([weight / total / scale for _, weight in chosen], np.float64),
        access_TM=access_TM.reshape(len(chosen), len(mix.models) + 1),
        devices=mix.devices,
    )
