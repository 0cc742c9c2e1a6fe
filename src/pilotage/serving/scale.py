"""Totals of a policy as the whole numbers that kube-scheduler takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilotage.kernels.whole_scores import scale_totals
from pilotage.model.workload import FloatArray


def scaled(total_C: FloatArray, top: int) -> NDArray[np.uint8]:
    """0 to `top`; see the kernel."""
    score_C = np.empty(len(total_C), np.uint8)
    scale_totals(total_C, top, score_C)
    return score_C
