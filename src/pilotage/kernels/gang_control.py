"""When to divide anew: the published planning and the supersteps that come of it.

Axes as in gang_division. Divisions of all windows are found before; here they are only chosen among.
"""

from __future__ import annotations

from typing import NamedTuple

from pilotage.kernels.compiling import inner, kernel
from pilotage.kernels.gang_division import estimate, slowest, window_index
from pilotage.model.workload import BoolArray, FloatArray, IntArray

MOST_STEPS = 15  # widest window that the published planning looks at


class Divided(NamedTuple):
    """What is known when planning at each superstep: forecast durations, divisions of all windows, their time."""

    duration_THJC: FloatArray
    unit_TQJ: IntArray
    estimate_TQ: FloatArray


class Rule(NamedTuple):
    """How far a controller looks, how much less later steps are trusted, what a new division costs."""

    horizon: int
    growth: float
    penalty: float
    may_keep: bool


class Course(NamedTuple):
    """What happened: the division of each superstep, whether it was made for it, how long the superstep took."""

    unit_TJ: IntArray
    divided_T: BoolArray
    seconds_T: FloatArray


@inner
def copy_units(from_J: IntArray, to_J: IntArray) -> None:
    for j in range(to_J.shape[0]):
        to_J[j] = from_J[j]


@inner
def happen(actual_JC: FloatArray, course: Course, t: int) -> None:
    j = slowest(actual_JC, course.unit_TJ[t])
    course.seconds_T[t] = actual_JC[j, course.unit_TJ[t, j]]


@kernel
def follow_divisions(actual_TJC: FloatArray, course: Course) -> None:
    """The durations of divisions that are given."""
    for t in range(actual_TJC.shape[0]):
        happen(actual_TJC[t], course, t)


@kernel
def plan_windows(
    estimate_Q: FloatArray,
    left: int,
    horizon: int,
    stored: int,
    growth: float,
    penalty: float,
    cost_H: FloatArray,
    width_H: IntArray,
) -> None:
    """Cost from each of the coming steps on when a window begins there, and the best width of that window.

    `stored` is the number of steps ahead of the windows in `estimate_Q`. Steps past the end cost nothing.
    """
    cost_H[: horizon + 1] = 0.0
    for start in range(min(horizon, left) - 1, -1, -1):
        least, best = 0.0, 0
        factor = 1.0
        for width in range(1, min(horizon - start, left, MOST_STEPS) + 1):
            factor *= growth
            cost = estimate_Q[window_index(start, width, stored)] * factor
            if start + width < horizon:
                cost += cost_H[start + width] + penalty
            if best == 0 or cost < least:
                least, best = cost, width
        cost_H[start], width_H[start] = least, best


@inner
def cost_of_keeping(duration_HJC: FloatArray, unit_J: IntArray, left: int, rule: Rule, cost_H: FloatArray) -> float:
    """The least cost when the division stays for some steps and a planned window follows."""
    least = 0.0
    factor = 1.0
    spent = 0.0
    for width in range(1, min(rule.horizon, left) + 1):
        factor *= rule.growth
        spent += estimate(duration_HJC, width - 1, 1, unit_J)
        cost = spent * factor
        if width < rule.horizon:
            cost += cost_H[width] + rule.penalty
        if width == 1 or cost < least:
            least = cost
    return least


@inner
def decide(
    known: Divided, t: int, current_J: IntArray, left: int, rule: Rule, cost_H: FloatArray, width_H: IntArray
) -> int:
    """How many supersteps the best window from t on has; 0 = keep what is, where the rule allows it."""
    stored = known.duration_THJC.shape[1]
    plan_windows(known.estimate_TQ[t], left, rule.horizon, stored, rule.growth, rule.penalty, cost_H, width_H)
    if rule.may_keep:
        keeping = cost_of_keeping(known.duration_THJC[t], current_J, left, rule, cost_H)
        if keeping < cost_H[0] + rule.penalty:
            return 0
    return width_H[0]


@kernel
def run_dynamic(
    known: Divided,
    actual_TJC: FloatArray,
    rule: Rule,
    cost_H: FloatArray,
    width_H: IntArray,
    course: Course,
) -> None:
    """DynamicMPC (`may_keep`: planned anew at each step) or DynamicWindow (a chosen window is carried through)."""
    length, stored = actual_TJC.shape[0], known.duration_THJC.shape[1]
    first = Rule(rule.horizon, rule.growth, rule.penalty, False)
    until = 0  # where the window that is being carried through ends
    for t in range(length):
        width = 0
        if t >= until:
            before_J = course.unit_TJ[max(t - 1, 0)]
            width = decide(known, t, before_J, length - t, first if t == 0 else rule, cost_H, width_H)
        course.divided_T[t] = width > 0
        if width == 0:
            copy_units(course.unit_TJ[t - 1], course.unit_TJ[t])
        else:
            copy_units(known.unit_TQJ[t, window_index(0, width, stored)], course.unit_TJ[t])
            until = t + 1 if rule.may_keep else t + width
        happen(actual_TJC[t], course, t)


@kernel
def run_static(known: Divided, actual_TJC: FloatArray, width: int, course: Course) -> None:
    """Divided anew every `width` steps for the `width` steps to come, past the end too."""
    stored = known.duration_THJC.shape[1]
    for t in range(actual_TJC.shape[0]):
        course.divided_T[t] = t % width == 0
        if t % width == 0:
            copy_units(known.unit_TQJ[t, window_index(0, width, stored)], course.unit_TJ[t])
        else:
            copy_units(course.unit_TJ[t - 1], course.unit_TJ[t])
        happen(actual_TJC[t], course, t)
