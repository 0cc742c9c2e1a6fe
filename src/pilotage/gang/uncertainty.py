"""How wrong forecasts have been so far: possible sizes of the coming supersteps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pilotage.gang.durations import DurationModel, duration_table
from pilotage.gang.sizes import Sizes
from pilotage.kernels.gang_futures import Grid
from pilotage.model.workload import FloatArray, IntArray

GRID = 801  # sizes between the smallest and the largest at which durations are kept
RECENT = 300  # moments of the past that count: forecasts made from fewer values were worse


@dataclass(frozen=True)
class Uncertainty:
    """Forecasts, and what was missed by them where that is known. Rows before 0 are from before the first superstep.

    `missed_RHJ` has `before` rows more than there are supersteps: what forecasts made then and until now missed.
    """

    forecast_THJ: FloatArray
    missed_RHJ: FloatArray
    before: int
    grid: Grid

    @classmethod
    def of(
        cls, model: DurationModel, sizes: Sizes, earlier: Sizes | None, share_C: FloatArray, low: float, high: float
    ) -> Uncertainty:
        """`earlier` are forecasts and sizes of the rows right before the first superstep, where there are any."""
        missed_THJ = sizes.actual_THJ - sizes.forecast_THJ
        before = 0 if earlier is None else len(earlier.actual_THJ)
        if earlier is not None:
            missed_THJ = np.concatenate([earlier.actual_THJ - earlier.forecast_THJ, missed_THJ])
        size_G = np.linspace(low, high, GRID)
        grid_GJ = np.repeat(size_G[:, None], len(model.tasks), axis=1)
        duration_JCG = np.ascontiguousarray(duration_table(model, grid_GJ, share_C).transpose(1, 2, 0))
        return cls(sizes.forecast_THJ, missed_THJ, before, Grid(duration_JCG, low, high))

    def part(self, length: int) -> Uncertainty:
        """The first supersteps."""
        return replace(
            self, forecast_THJ=self.forecast_THJ[:length], missed_RHJ=self.missed_RHJ[: self.before + length]
        )

    def moments(self, t: int, horizon: int) -> IntArray:
        """Rows whose misses, `horizon` steps on, are all known at superstep t, the latest of them."""
        end = max(t + self.before - horizon + 1, 0)
        return np.arange(max(end - RECENT, 0), end)
