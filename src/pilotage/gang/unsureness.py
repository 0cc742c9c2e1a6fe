"""How unsure the durations of a grid are: what a model knows of each cell from its tries and from its neighbours.

Logarithms of durations are taken to be a surface that bends little. A cell is unsure when its tries differ, when there
are few of them, when neighbours contradict it, and when it has few neighbours, as at the edges: the standard deviation
that is left for the surface there, a part of the duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pilotage.gang.monotone_durations import LEAST_SECONDS, STRENGTHS, price_of_bends
from pilotage.model.workload import FloatArray

PRIOR_SPREAD: Final = 0.1  # of a duration: what a single try is taken to be off by
PRIOR_TRIES: Final = 2.0  # so many tries the prior counts
LEAST_FREEDOM: Final = 0.05  # below it a cell is known by itself alone: neighbours say nothing about it
_TINY: Final = 1e-9


def unsure_cells(size_S: FloatArray, share_C: FloatArray, tries_SC: Sequence[Sequence[Sequence[float]]]) -> FloatArray:
    """Of every cell of a grid (S x C); each has been tried at least once."""
    logs = [np.log(np.maximum(own, LEAST_SECONDS)) for row in tries_SC for own in row]
    count_K = np.array([float(len(own)) for own in logs])
    mean_K = np.array([own.mean() for own in logs])
    differ_K = np.array([((own - own.mean()) ** 2).sum() for own in logs])
    bends_KK = price_of_bends(size_S, share_C)
    # The strength of smoothing with which a cell is best foretold by all others.
    fits = {strength: _left_out(mean_K, count_K, strength * bends_KK) for strength in STRENGTHS}
    best = min(STRENGTHS, key=lambda strength: float(np.mean(fits[strength][0] ** 2)))
    missed_K, told_K = fits[best]
    spread_K = (PRIOR_TRIES * PRIOR_SPREAD**2 + differ_K + missed_K**2) / (PRIOR_TRIES + count_K - 1.0 + told_K)
    known_KK = np.diag(count_K / spread_K) + best * bends_KK / spread_K.mean()
    left_K = np.linalg.inv(known_KK + _TINY * np.eye(len(count_K))).diagonal()
    unsure_SC: FloatArray = np.sqrt(left_K).reshape(len(size_S), len(share_C))
    return unsure_SC


def _left_out(mean_K: FloatArray, count_K: FloatArray, price_KK: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What neighbours miss of each cell, itself left out; and whether (0 or 1) they say anything about it."""
    inverse_KK = np.linalg.inv(np.diag(count_K) + price_KK + _TINY * np.eye(len(count_K)))
    fitted_K = inverse_KK @ (count_K * mean_K)
    free_K = 1.0 - inverse_KK.diagonal() * count_K
    told_K = free_K > LEAST_FREEDOM
    missed_K: FloatArray = np.where(told_K, (mean_K - fitted_K) / np.where(told_K, free_K, 1.0), 0.0)
    return missed_K, told_K.astype(np.float64)
