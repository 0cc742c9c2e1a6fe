"""Means with intervals over seeds, and paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import atan2, exp, hypot, lgamma, log, pi, sqrt
from statistics import NormalDist

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
    half = float(t_quantile(0.5 + CONFIDENCE / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: int) -> float:
    """Of Student's t, for probabilities above one half."""
    # The distribution function is concave here, so that Newton's steps from below never pass the quantile.
    t = NormalDist().inv_cdf(probability)
    while True:
        step = (probability - 0.5 - t_within(t, freedom) / 2) / _t_density(t, freedom)
        if step <= t * 1e-15:
            return t + step
        t += step


def t_within(t: float, freedom: int) -> float:
    """Probability of less than `t` on either side: the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    root = sqrt(freedom)
    sine, cosine = t / hypot(t, root), root / hypot(t, root)
    odd = freedom % 2
    lower_K = np.arange(1 + odd, freedom - 1, 2)
    terms = np.cumprod(np.concatenate([[cosine**odd], lower_K / (lower_K + 1) * cosine**2]))
    if not odd:
        return float(sine * terms.sum())
    return float(2 / pi * (atan2(t, root) + (sine * terms.sum() if freedom > 1 else 0.0)))


def _t_density(t: float, freedom: int) -> float:
    scale = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(pi * freedom) / 2
    return exp(scale - (freedom + 1) / 2 * log(1 + t * t / freedom))
