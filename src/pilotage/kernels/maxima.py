"""The highest of many scores that change one at a time: a tree of maxima, eight to one.

Level 0 holds the maximum of each eight scores, every further level those of eight of the level before, the last level
one number. A changed score is followed upwards until a maximum stays what it was; the first of the highest is found
downwards. Scores and levels are filled up to whole eights with LOWEST, so that no group is cut short.
"""

from __future__ import annotations

import numpy as np

from pilotage.kernels.compiling import inlined, inlined_inner
from pilotage.model.workload import FloatArray, IntArray

LOWEST = -np.inf
GROUP_BITS = 3
GROUP = 1 << GROUP_BITS


def whole_groups(size: int) -> int:
    """`size`, filled up to whole groups."""
    return -(-size // GROUP) * GROUP


def level_starts(size: int) -> IntArray:
    """Where each level begins in a row of maxima over so many scores, and at last where the row ends."""
    starts, groups = [0], whole_groups(max(size, 1)) // GROUP
    while groups > 1:
        starts.append(starts[-1] + whole_groups(groups))
        groups = whole_groups(groups) // GROUP
    return np.array([*starts, starts[-1] + 1], np.int64)


@inlined_inner
def highest_of_group(value_N: FloatArray, first: int) -> float:
    """In pairs: each comparison waits for two before it, not for all."""
    a, b = max(value_N[first], value_N[first + 1]), max(value_N[first + 2], value_N[first + 3])
    c, d = max(value_N[first + 4], value_N[first + 5]), max(value_N[first + 6], value_N[first + 7])
    e, f = max(a, b), max(c, d)
    return max(e, f)


@inlined
def follow_change(score_N: FloatArray, maxima_T: FloatArray, start_L: IntArray, n: int) -> None:
    """Score n is another one."""
    group = n >> GROUP_BITS
    highest = highest_of_group(score_N, group << GROUP_BITS)
    for level in range(start_L.shape[0] - 1):
        start = start_L[level]
        if maxima_T[start + group] == highest:
            return
        maxima_T[start + group] = highest
        group >>= GROUP_BITS
        if level + 2 < start_L.shape[0]:
            highest = highest_of_group(maxima_T, start + (group << GROUP_BITS))


@inlined
def find_maxima(score_N: FloatArray, maxima_T: FloatArray, start_L: IntArray) -> None:
    """All of them afresh."""
    for group in range(score_N.shape[0] >> GROUP_BITS):
        maxima_T[group] = highest_of_group(score_N, group << GROUP_BITS)
    for level in range(1, start_L.shape[0] - 1):
        below, start = start_L[level - 1], start_L[level]
        for group in range((start - below) >> GROUP_BITS):
            maxima_T[start + group] = highest_of_group(maxima_T, below + (group << GROUP_BITS))


@inlined
def first_highest(score_N: FloatArray, maxima_T: FloatArray, start_L: IntArray) -> int:
    """The place of the highest score, the first among equals; -1 where there is none."""
    level = start_L.shape[0] - 2
    highest, place = maxima_T[start_L[level]], 0
    if highest == LOWEST:
        return -1
    while level > 0:
        level -= 1
        place <<= GROUP_BITS
        while maxima_T[start_L[level] + place] != highest:
            place += 1
    place <<= GROUP_BITS
    while score_N[place] != highest:
        place += 1
    return place
