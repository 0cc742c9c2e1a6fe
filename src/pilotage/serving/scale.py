"""Totals of a policy as the whole numbers that kube-scheduler takes."""

from __future__ import annotations

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.model.workload import FloatArray, IntArray


def scaled(total_C: FloatArray, top: int) -> IntArray:
    """0 to `top`: the best candidates have `top` and no others do, equal ones have equal scores.

    Where all are equal all have 0: others decide. A candidate without room (INFEASIBLE) has 0, then all others more.
    """
    score_C = np.zeros(len(total_C), np.int64)
    fits_C = total_C != INFEASIBLE
    if not fits_C.any():
        return score_C
    fitting = total_C[fits_C]
    # Halved first: the distance of two numbers may be larger than the largest number.
    low, high = 0.5 * float(fitting.min()), 0.5 * float(fitting.max())
    lowest = 0 if fits_C.all() else 1
    if low == high:
        score_C[fits_C] = top if lowest else 0
        return score_C
    share = (0.5 * fitting - low) / (high - low)
    rounded = lowest + np.floor(share * (top - lowest)).astype(np.int64)
    score_C[fits_C] = np.where(0.5 * fitting == high, top, np.minimum(rounded, top - 1))
    return score_C
