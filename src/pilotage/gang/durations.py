"""How long a task takes by the size of its work and its share: models of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pilotage.gang.fitting import spline
from pilotage.gang.profile import Profile
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

_DEGREE = 3
SPLINE_LINES = _DEGREE + 1  # sizes, and shares, that a spline needs at the least


class DurationModel(Protocol):
    """Durations of the tasks of a job."""

    @property
    def tasks(self) -> tuple[str, ...]: ...

    def grid(self, j: int, size_S: FloatArray, share_C: FloatArray) -> FloatArray:
        """Seconds (S x C) of task `j`; sizes and shares outside what was measured count as the nearest measured."""
        ...


@dataclass(frozen=True)
class SplineDurations:
    """The published model: a bicubic spline through the mean of every cell, clamped outside the grid."""

    tasks: tuple[str, ...]
    splines: tuple[Any, ...]  # of scipy, in the order of the tasks

    @classmethod
    def of(cls, profile: Profile, tasks: Sequence[str]) -> SplineDurations:
        splines = []
        for task in tasks:
            size_S, share_C, seconds_SC = profile.grid(task)
            if min(len(size_S), len(share_C)) < SPLINE_LINES:
                raise InputError(
                    f"{task} has {len(size_S)} sizes and {len(share_C)} shares",
                    file=profile.file,
                    expected=f"at least {SPLINE_LINES} of each for a spline, or durations: monotone",
                )
            splines.append(spline(size_S, share_C, seconds_SC, kx=_DEGREE, ky=_DEGREE))
        return cls(tuple(tasks), tuple(splines))

    def grid(self, j: int, size_S: FloatArray, share_C: FloatArray) -> FloatArray:
        seconds_SC: FloatArray = self.splines[j](size_S, share_C, grid=True)
        return seconds_SC


def duration_table(model: DurationModel, size_XJ: FloatArray, share_C: FloatArray) -> FloatArray:
    """Durations for any number of moments (X, one or several axes): their axes, then tasks and shares."""
    shape, J = size_XJ.shape[:-1], size_XJ.shape[-1]
    flat_XJ = size_XJ.reshape(-1, J)
    out_XJC = np.empty((len(flat_XJ), J, len(share_C)))
    for j in range(J):
        size_S, s_X = np.unique(flat_XJ[:, j], return_inverse=True)
        out_XJC[:, j] = model.grid(j, size_S, share_C)[s_X]
    return out_XJC.reshape(*shape, J, len(share_C))
