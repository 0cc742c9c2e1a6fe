"""A duration model that knows two things about all work: more of it takes no less time, more CPU no more.

Measured means are smoothed on a logarithmic scale (weights are numbers of tries), made monotone by projection, and read
between cells by interpolation, which keeps them so. How strongly to smooth, and whether this model or the published
spline is better for a profile, is decided by predicting lines of the grid that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pilotage.gang.durations import SPLINE_LINES, DurationModel, SplineDurations
from pilotage.gang.fitting import isotonic, spline
from pilotage.gang.profile import Profile
from pilotage.model.workload import FloatArray

STRENGTHS: Final = (0.003, 0.03, 0.3, 3.0, 30.0)
USUAL_SPREAD: Final = 0.1  # of a duration, that tries differ by where nothing is known about it
LEAST_SECONDS: Final = 1e-6  # a logarithm needs more than nothing
_ROUNDS: Final = 200  # of projections in turn; few are needed
_NORMAL_95: Final = 1.959964


@dataclass(frozen=True)
class Surface:
    """Logarithms of durations of one task on its grid, and how far measurements are from them."""

    size_S: FloatArray
    share_C: FloatArray
    log_SC: FloatArray
    sigma: float  # standard deviation of what was left out, on the logarithmic scale

    def grid(self, size_X: FloatArray, share_Y: FloatArray) -> FloatArray:
        """Interpolated between the four cells around; outside the grid, those of its edge."""
        row_XC = _between(self.size_S, self.log_SC, size_X)
        return np.exp(_between(self.share_C, row_XC.T, share_Y).T)


@dataclass(frozen=True)
class MonotoneDurations:
    """One surface per task."""

    tasks: tuple[str, ...]
    surfaces: tuple[Surface, ...]

    @classmethod
    def of(cls, profile: Profile, tasks: Sequence[str]) -> MonotoneDurations:
        return cls(tuple(tasks), tuple(_surface(profile, task) for task in tasks))

    def grid(self, j: int, size_S: FloatArray, share_C: FloatArray) -> FloatArray:
        return self.surfaces[j].grid(size_S, share_C)

    def interval(self, j: int, size_S: FloatArray, share_C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where 95 % of measurements are expected: lower and upper seconds."""
        middle_SC, factor = self.grid(j, size_S, share_C), interval_factor(self.surfaces[j].sigma)
        return middle_SC / factor, middle_SC * factor


def _between(at_K: FloatArray, value_KX: FloatArray, wanted_Y: FloatArray) -> FloatArray:
    """Linear interpolation along the first axis."""
    place_Y = np.clip(np.interp(wanted_Y, at_K, np.arange(len(at_K))), 0, len(at_K) - 1)
    low_Y = np.minimum(place_Y.astype(np.int64), max(len(at_K) - 2, 0))
    part_Y = (place_Y - low_Y)[:, None]
    high_Y = np.minimum(low_Y + 1, len(at_K) - 1)
    found: FloatArray = value_KX[low_Y] * (1 - part_Y) + value_KX[high_Y] * part_Y
    return found


def _surface(profile: Profile, task: str) -> Surface:
    size_S, share_C, mean_SC = profile.grid(task)
    weight_SC = _tries(profile, task, size_S, share_C)
    log_SC = np.log(np.maximum(mean_SC, LEAST_SECONDS))
    errors = {strength: _left_out_errors(size_S, share_C, log_SC, weight_SC, strength) for strength in STRENGTHS}
    best = min(STRENGTHS, key=lambda strength: float((errors[strength] ** 2).sum()))
    fitted_SC = monotone(smooth(log_SC, weight_SC, best * price_of_bends(size_S, share_C)))
    # Without a line that could be left out, what tries differ by among themselves has to do.
    sigma = float(np.sqrt(np.mean(errors[best] ** 2))) if len(errors[best]) else _differ(profile, task)
    return Surface(size_S, share_C, fitted_SC, sigma)


def _differ(profile: Profile, task: str) -> float:
    """Standard deviation of tries of a cell, on the logarithmic scale; a usual one where none was tried twice."""
    size_M, share_M, seconds_M = profile.of_task(task)
    _, cell_M, count_K = np.unique(np.stack([size_M, share_M]), axis=1, return_inverse=True, return_counts=True)
    cell_M, log_M = cell_M.ravel(), np.log(np.maximum(seconds_M, LEAST_SECONDS))
    mean_K = np.bincount(cell_M, log_M) / count_K
    more = len(log_M) - len(count_K)
    return float(np.sqrt(((log_M - mean_K[cell_M]) ** 2).sum() / more)) if more else USUAL_SPREAD


def _tries(profile: Profile, task: str, size_S: FloatArray, share_C: FloatArray) -> FloatArray:
    size_M, share_M, _ = profile.of_task(task)
    cell_M = np.searchsorted(size_S, size_M) * len(share_C) + np.searchsorted(share_C, share_M)
    count = np.bincount(cell_M, minlength=len(size_S) * len(share_C))
    return count.reshape(len(size_S), len(share_C)).astype(np.float64)


def price_of_bends(size_S: FloatArray, share_C: FloatArray) -> FloatArray:
    """A quadratic form over all cells: how much a surface bends, along sizes and along shares."""
    bend_S, bend_C = _bends(np.log(size_S + 1.0)), _bends(np.log(share_C))
    along_size, along_share = bend_S.T @ bend_S, bend_C.T @ bend_C
    return np.kron(along_size, np.eye(len(share_C))) + np.kron(np.eye(len(size_S)), along_share)


def smooth(log_SC: FloatArray, weight_SC: FloatArray, price: FloatArray) -> FloatArray:
    """Weighted least squares with a price on bends; a cell of weight 0 is filled in."""
    matrix = np.diag(weight_SC.ravel()) + price + 1e-9 * np.eye(log_SC.size)
    known = (weight_SC * log_SC + 1e-9 * log_SC.mean()).ravel()
    return np.linalg.solve(matrix, known).reshape(log_SC.shape).astype(np.float64)


def _bends(at_K: FloatArray) -> FloatArray:
    """Second divided differences, per neighbouring three, on a scale where steps are about one."""
    step = np.diff(at_K) / max(float(np.mean(np.diff(at_K))), 1e-12) if len(at_K) > 1 else np.ones(0)
    rows = np.zeros((max(len(at_K) - 2, 0), len(at_K)))
    for k in range(len(rows)):
        rows[k, k : k + 3] = (1 / step[k], -1 / step[k] - 1 / step[k + 1], 1 / step[k + 1])
    return rows


def monotone(log_SC: FloatArray) -> FloatArray:
    """The nearest surface that rises with the size and falls with the share (projections in turn, after Dykstra)."""
    found, left, right = log_SC.copy(), np.zeros_like(log_SC), np.zeros_like(log_SC)
    for _ in range(_ROUNDS):
        before = found + left
        rising = np.stack([isotonic(before[:, c], increasing=True) for c in range(before.shape[1])], axis=1)
        left, before = before - rising, rising + right
        falling = np.stack([isotonic(row, increasing=False) for row in before])
        right = before - falling
        if np.abs(falling - found).max() < 1e-10:
            break
        found = falling
    # What rounding leaves is taken away: first along sizes, which keeps falling rows falling.
    return np.maximum.accumulate(found, axis=0)


def _left_out_errors(
    size_S: FloatArray, share_C: FloatArray, log_SC: FloatArray, weight_SC: FloatArray, strength: float
) -> FloatArray:
    """Errors at inner lines of the grid, each predicted from all others."""
    found = []
    price = strength * price_of_bends(size_S, share_C)
    for along, at_K in ((0, size_S), (1, share_C)):
        for k in range(1, len(at_K) - 1):
            line = (k, slice(None)) if along == 0 else (slice(None), k)
            kept_SC = weight_SC.copy()
            kept_SC[line] = 0.0
            found.append((smooth(log_SC, kept_SC, price) - log_SC)[line])
    return np.concatenate(found) if found else np.zeros(0)


def spline_errors(profile: Profile, task: str) -> FloatArray:
    """The same of the published spline: a line of the grid left out leaves a grid."""
    size_S, share_C, mean_SC = profile.grid(task)
    log_SC, found = np.log(np.maximum(mean_SC, LEAST_SECONDS)), []
    for along, at_K in ((0, size_S), (1, share_C)):
        for k in range(1, len(at_K) - 1):
            keep = np.delete(np.arange(len(at_K)), k)
            if along == 0:
                without = spline(size_S[keep], share_C, mean_SC[keep], kx=min(3, len(keep) - 1))
                predicted, line = without(size_S[k : k + 1], share_C)[0], log_SC[k]
            else:
                without = spline(size_S, share_C[keep], mean_SC[:, keep], ky=min(3, len(keep) - 1))
                predicted, line = without(size_S, share_C[k : k + 1])[:, 0], log_SC[:, k]
            found.append(np.log(np.maximum(predicted, LEAST_SECONDS)) - line)
    return np.concatenate(found) if found else np.zeros(1)


@dataclass(frozen=True)
class TaskErrors:
    """How far predictions of left-out lines of one task are off: root mean squares on the logarithmic scale."""

    task: str
    spline: float  # infinite where the grid is too small for a spline
    monotone: float

    def of(self, model: str) -> float:
        return self.spline if model == "spline" else self.monotone


@dataclass(frozen=True)
class Choice:
    """Which model predicts left-out lines better."""

    model: DurationModel
    name: str
    by_task: tuple[TaskErrors, ...]

    @property
    def spline_error(self) -> float:
        return _together([own.spline for own in self.by_task])

    @property
    def monotone_error(self) -> float:
        return _together([own.monotone for own in self.by_task])


def _together(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def interval_factor(error: float) -> float:
    """95 % of measurements are expected between the prediction divided by it and the prediction times it."""
    return float(np.exp(_NORMAL_95 * error))


def choose_durations(profile: Profile, tasks: Sequence[str]) -> Choice:
    own = MonotoneDurations.of(profile, tasks)
    small = any(min(surface.log_SC.shape) < SPLINE_LINES for surface in own.surfaces)
    errors = tuple(
        TaskErrors(
            task,
            float("inf") if small else float(np.sqrt(np.mean(spline_errors(profile, task) ** 2))),
            surface.sigma,
        )
        for task, surface in zip(tasks, own.surfaces, strict=True)
    )
    found = Choice(own, "monotone", errors)
    if found.spline_error < found.monotone_error:
        return Choice(SplineDurations.of(profile, tasks), "spline", errors)
    return found
