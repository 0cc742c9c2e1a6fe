"""Means with intervals over seeds, and paired differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval (Student's t); with one value there is no interval."""

    mean: float
    low: float | None
    high: float | None


def interval(values: npt.ArrayLike) -> Interval:
    x = np.asarray(values, np.float64)
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, None, None)
    from scipy.special import stdtrit

    half = float(stdtrit(len(x) - 1, 0.5 + CONFIDENCE / 2) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)
