"""The tree of maxima beside a look at every score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.kernels.maxima import LOWEST, find_maxima, first_highest, follow_change, level_starts, whole_groups
from pilotage.model.workload import FloatArray, IntArray

# Few values, so that equal ones are common.
SCORES = st.sampled_from([LOWEST, -1.5, 0.0, 2.0, 7.0])


def tree_over(scores: list[float]) -> tuple[FloatArray, FloatArray, IntArray]:
    """Scores in whole groups, their maxima and where the levels start."""
    score_N = np.full(whole_groups(len(scores)), LOWEST)
    score_N[: len(scores)] = scores
    start_L = level_starts(len(scores))
    maxima_T = np.full(start_L[-1], LOWEST)
    find_maxima(score_N, maxima_T, start_L)
    return score_N, maxima_T, start_L


def first_of_the_highest(scores: FloatArray) -> int:
    best = max(scores)
    return -1 if best == LOWEST else scores.tolist().index(best)


@pytest.mark.parametrize(
    ("size", "starts"),
    [(0, [0, 1]), (8, [0, 1]), (9, [0, 8, 9]), (64, [0, 8, 9]), (65, [0, 16, 24, 25]), (1213, [0, 152, 176, 184, 185])],
)
def test_every_level_has_an_eighth_of_the_one_before_in_whole_groups(size: int, starts: list[int]) -> None:
    assert level_starts(size).tolist() == starts


@pytest.mark.parametrize("size", [1, 8, 9, 65, 520])
def test_one_score_alone_is_found_wherever_it_is(size: int) -> None:
    for n in range(size):
        alone = [LOWEST] * size
        score_N, maxima_T, start_L = tree_over(alone)
        assert first_highest(score_N, maxima_T, start_L) == -1
        score_N[n] = 1.0
        follow_change(score_N, maxima_T, start_L, n)
        assert first_highest(score_N, maxima_T, start_L) == n
        alone[n] = 1.0
        assert maxima_T.tolist() == tree_over(alone)[1].tolist()
        assert first_highest(*tree_over(alone)) == n


@settings(deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=150))
def test_the_first_of_the_highest_is_found(scores: list[float]) -> None:
    score_N, maxima_T, start_L = tree_over(scores)
    assert first_highest(score_N, maxima_T, start_L) == first_of_the_highest(np.array(scores))


@settings(deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=150), st.lists(st.tuples(st.integers(0, 149), SCORES), max_size=20))
def test_followed_changes_lead_to_the_maxima_found_afresh(
    scores: list[float], changes: list[tuple[int, float]]
) -> None:
    score_N, maxima_T, start_L = tree_over(scores)
    for place, score in changes:
        n = place % len(scores)
        score_N[n] = score
        follow_change(score_N, maxima_T, start_L, n)
        assert maxima_T.tolist() == tree_over(score_N.tolist())[1].tolist()
        assert first_highest(score_N, maxima_T, start_L) == first_of_the_highest(score_N)
