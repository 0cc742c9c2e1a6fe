"""Totals as whole numbers, against the definition in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.whole_scores import scale_totals

LARGEST = float(np.finfo(np.float64).max)
ROUNDING = Fraction(1, 10**12)
totals = st.lists(st.sampled_from([INFEASIBLE, 0.0, -0.0, 1.0, 2.5, -3.0, LARGEST, -LARGEST]), max_size=6)


def scores(total_C: list[float], top: int) -> list[int]:
    score_C = np.full(len(total_C), 77, np.uint8)
    scale_totals(np.array(total_C), top, score_C)
    return score_C.tolist()


def by_definition(total_C: list[float], top: int, error: Fraction) -> list[int]:
    """With exact shares that are larger by `error`, as those in floating point may be."""
    fitting = [Fraction(total) for total in total_C if total != INFEASIBLE]
    lowest = int(len(fitting) < len(total_C))

    def score(total: float) -> int:
        if total == INFEASIBLE:
            return 0
        low, high = min(fitting), max(fitting)
        if low == high:
            return top * lowest
        if Fraction(total) == high:
            return top
        share = (Fraction(total) - low) / (high - low) + error
        return min(max(lowest + floor(share * (top - lowest)), lowest), top - 1)

    return [score(total) for total in total_C]


@settings(deadline=None)  # the first call compiles
@given(total_C=totals, top=st.sampled_from([10, 100]))
@example(total_C=[LARGEST, -LARGEST, 0.0], top=100)
@example(total_C=[LARGEST, -LARGEST, -3.0], top=100)
@example(total_C=[INFEASIBLE, 1.0, 1.0], top=10)
@example(total_C=[], top=10)
def test_scores_are_those_of_the_definition(total_C: list[float], top: int) -> None:
    found = scores(total_C, top)
    least, most = (by_definition(total_C, top, error) for error in (-ROUNDING, ROUNDING))
    assert all(a <= score <= b for a, score, b in zip(least, found, most, strict=True)), (least, found, most)


@pytest.mark.parametrize("top", [10, 100])
def test_only_the_best_have_the_highest_score_however_close_others_come(top: int) -> None:
    assert scores([1.0, np.nextafter(1.0, 0.0), 0.0], top) == [top, top - 1, 0]
