"""Totals of a policy as the whole numbers that kube-scheduler takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.compiling import kernel
from pilotage.model.workload import FloatArray


@kernel
def scale_totals(total_C: FloatArray, top: int, score_C: NDArray[np.uint8]) -> None:
    """0 to `top`: the best candidates have `top` and no others do, equal ones have equal scores.

    Where all are equal all have 0: others decide. A candidate without room (INFEASIBLE) has 0, then all others more.
    """
    low, high, lowest = np.inf, -np.inf, 0
    for c in range(total_C.shape[0]):
        if total_C[c] == INFEASIBLE:
            lowest = 1
        else:
            low, high = min(low, total_C[c]), max(high, total_C[c])
    # Halved first: the distance of two numbers may be larger than the largest number.
    low, high = 0.5 * low, 0.5 * high
    for c in range(total_C.shape[0]):
        total = 0.5 * total_C[c]
        if total_C[c] == INFEASIBLE:
            score_C[c] = 0
        elif low == high:
            score_C[c] = top if lowest else 0
        elif total == high:
            score_C[c] = top
        else:
            score_C[c] = min(lowest + int(np.floor((total - low) / (high - low) * (top - lowest))), top - 1)
