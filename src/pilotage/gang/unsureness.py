"""How unsure the durations of a grid are: what a model knows of each cell from its tries and from its neighbours.

Logarithms of durations are taken to be a surface that bends little. A cell is unsure when its tries differ, when there
are few of them, and when it has few neighbours, as at the edges: the standard deviation that is left for the surface
there, a part of the duration. It is unsure too when neighbours contradict it, until more tries say the same.
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
SAME: Final = 1.02  # errors that differ by less are the same
NOTHING: Final = 1e-3  # of a duration: smaller errors are none
_TINY: Final = 1e-9


def unsure_cells(size_S: FloatArray, share_C: FloatArray, tries_SC: Sequence[Sequence[Sequence[float]]]) -> FloatArray:
    """Of every cell of a grid (S x C); each has been tried at least once."""
    logs = [np.log(np.maximum(own, LEAST_SECONDS)) for row in tries_SC for own in row]
    count_K = np.array([float(len(own)) for own in logs])
    mean_K = np.array([own.mean() for own in logs])
    differ_K = np.array([((own - own.mean()) ** 2).sum() for own in logs])
    bends_KK = price_of_bends(size_S, share_C)
    left_out = {strength: _left_out(mean_K, count_K, strength * bends_KK) for strength in STRENGTHS}
    missed = {strength: float((own[0] ** 2).sum()) for strength, own in left_out.items()}
    # The strongest smoothing with which cells are foretold by all others about as well as with any.
    enough = SAME * min(missed.values()) + len(mean_K) * NOTHING**2
    best = max(strength for strength in STRENGTHS if missed[strength] <= enough)
    missed_K, free_K = left_out[best]
    contradicted_K = np.where(free_K > LEAST_FREEDOM, missed_K / count_K, 0.0)
    spread_K = (PRIOR_TRIES * PRIOR_SPREAD**2 + differ_K) / (PRIOR_TRIES + count_K - 1.0)
    known_KK = np.diag(count_K / spread_K) + best * bends_KK / spread_K.mean()
    left_K = np.linalg.inv(known_KK + _TINY * np.eye(len(count_K))).diagonal()
    unsure_SC: FloatArray = np.sqrt(left_K + contradicted_K**2).reshape(len(size_S), len(share_C))
    return unsure_SC


def _left_out(mean_K: FloatArray, count_K: FloatArray, price_KK: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What neighbours miss of each cell, itself left out; and how much of what is known of it they say (0 to 1)."""
    inverse_KK = np.linalg.inv(np.diag(count_K) + price_KK + _TINY * np.eye(len(count_K)))
    fitted_K = inverse_KK @ (count_K * mean_K)
    free_K = np.maximum(1.0 - inverse_KK.diagonal() * count_K, _TINY)
    return (mean_K - fitted_K) / free_K, free_K
