"""Possible futures of every superstep and the budget divided for them.

None of it depends on what a new division costs or on the shares in force, so it is found once for all penalties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.gang.uncertainty import Uncertainty
from pilotage.kernels.gang_division import Room
from pilotage.kernels.gang_futures import Foreseen, Futures, Limits, Scratch, foresee
from pilotage.model.workload import FloatArray

FUTURES = 32
SPREAD = 0.6
SWAPS = 8


@dataclass(frozen=True)
class Outlooks:
    """Which futures are looked at."""

    horizon: int
    """Supersteps ahead."""
    futures: int = FUTURES
    """Moments of the past whose misses are taken to come again."""
    spread: float = SPREAD
    """What was missed counts so much: the past has more outliers than the next steps."""
    swaps: int = SWAPS
    """Units that may change hands after a division has been made, at the most."""
    seed: int = 0
    """Draws the moments of the past."""


class Foresight:
    """Looks ahead at one superstep after the other."""

    def __init__(self, settings: Outlooks, uncertainty: Uncertainty, room: Room) -> None:
        self.settings, self.uncertainty = settings, uncertainty
        self.limits = Limits(room, settings.swaps)
        self._chance = np.random.default_rng(settings.seed)
        J, X = len(room.most_J), settings.horizon * settings.futures
        self.place_JX = np.zeros((J, X), np.int16)
        self.unit_QJ = np.zeros((windows(settings.horizon), J), np.int64)
        self.estimate_Q = np.zeros(windows(settings.horizon))
        whole_X, count_J = np.zeros(X, np.int64), np.zeros(J, np.int64)
        used_N = np.zeros(len(room.most_N), np.int64)
        self._scratch = Scratch(self.place_JX.copy(), whole_X, np.zeros(X), np.zeros(X), np.zeros(J), count_J, used_N)

    def look(self, t: int) -> None:
        """Fills the tables of this object for superstep t; supersteps must come in order, since chance has a part."""
        forecast_HJ = self.uncertainty.forecast_THJ[t, : self.settings.horizon]
        seen = Futures(forecast_HJ, self._missed(t), self.settings.spread)
        tables = self.place_JX, self.unit_QJ, self.estimate_Q
        foresee(self.uncertainty.grid, seen, self.limits, self._scratch, *tables)

    def _missed(self, t: int) -> FloatArray:
        """What was missed at some moments; nothing, in all futures, where too few are known."""
        H, F = self.settings.horizon, self.settings.futures
        known = self.uncertainty.moments(t, H)
        if len(known) < F:
            return np.zeros((F, H, self.uncertainty.missed_RHJ.shape[2]))
        missed_FHJ: FloatArray = self.uncertainty.missed_RHJ[self._chance.choice(known, F, replace=False), :H]
        return missed_FHJ


def foresee_all(settings: Outlooks, uncertainty: Uncertainty, room: Room) -> Foreseen:
    """The tables of all supersteps."""
    foresight = Foresight(settings, uncertainty, room)
    T = len(uncertainty.forecast_THJ)
    found = Foreseen(
        np.zeros((T, *foresight.place_JX.shape), np.int16),
        np.zeros((T, *foresight.unit_QJ.shape), np.int64),
        np.zeros((T, len(foresight.estimate_Q))),
    )
    for t in range(T):
        foresight.look(t)
        found.place_TJX[t], found.unit_TQJ[t] = foresight.place_JX, foresight.unit_QJ
        found.estimate_TQ[t] = foresight.estimate_Q
    return found


def windows(horizon: int) -> int:
    """Windows within so many steps."""
    return horizon * (horizon + 1) // 2
