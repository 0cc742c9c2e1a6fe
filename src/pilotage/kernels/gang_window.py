"""The exact division of a window: one division for several supersteps, so that the sum of their times is least.

A lower bound comes from weights: where the tasks of a step have weights that sum to one, no step takes less than the
weighted mean of its tasks, and the division with the least sum of such means is found task by task, node by node, by
tables over units. Weights move towards the tasks that are slow under that division, which raises the bound. Another
bound is the sum of the times that steps would take with a division of their own. What both leave open is split: a box
(from .. to units per task) becomes two, until no box can hold a division that is better by more than a tolerance.
Axes as in gang_exact, and: B boxes, U units (0 .. all).
"""

from __future__ import annotations

from math import exp, inf
from typing import NamedTuple

from pilotage.kernels.compiling import inner, kernel
from pilotage.kernels.gang_division import Room, Scratch, divide_greedily, estimate, slowest
from pilotage.kernels.gang_exact import Box, divide_exactly
from pilotage.model.workload import FloatArray, IntArray

ROUNDS_AT_FIRST = 400  # changes of the weights for the box of all divisions
ROUNDS_IN_BOX = 30  # and for each box that is split off
PATIENCE = 12  # changes that bring nothing before steps become smaller
LEAST_WEIGHT = 1e-6  # a task that is never slow now may be later
LARGEST_STEP = 3.0  # of a weight's logarithm
EXCHANGES = 200  # of units between tasks, after a better division was found
DISCOUNT = 0.95  # of the published division, with which the search begins


class Search(NamedTuple):
    """Memory of a search; `low_BJ.shape[0]` is how many boxes may be open at once."""

    weight_HJ: FloatArray
    cost_JU: FloatArray  # weighted time of a task by its units
    node_U: FloatArray  # least cost of the tasks of a node so far, by units at the most
    next_U: FloatArray
    all_U: FloatArray  # the same of all nodes so far
    units_JU: IntArray  # what the task got there
    units_NU: IntArray  # what the node got there
    low_BJ: IntArray
    high_BJ: IntArray
    bound_B: FloatArray
    used_N: IntArray
    trial_J: IntArray
    spare_J: IntArray
    step_J: IntArray
    spent: IntArray  # one number: changes of the weights so far
    greedy: Scratch


@inner
def fits(room: Room, unit_J: IntArray, used_N: IntArray) -> bool:
    used_N[:] = 0
    total = 0
    for j in range(unit_J.shape[0]):
        if unit_J[j] > room.most_J[j]:
            return False
        total += unit_J[j]
        used_N[room.node_J[j]] += unit_J[j]
    for n in range(used_N.shape[0]):
        if used_N[n] > room.most_N[n]:
            return False
    return total <= room.units


@inner
def exchange(duration_HJC: FloatArray, room: Room, unit_J: IntArray, used_N: IntArray) -> float:
    """Gives units that are left, and lets units change hands, as long as the window takes less time; that time.

    Those who get one are the slowest of some step: nobody else makes it shorter.
    """
    width, J = duration_HJC.shape[0], unit_J.shape[0]
    least = estimate(duration_HJC, 0, width, unit_J)
    for _ in range(EXCHANGES):
        best, from_j, to_j = least, -1, -1
        for h in range(width):
            taker = slowest(duration_HJC[h], unit_J)
            unit_J[taker] += 1
            for giver in range(-1, J):  # -1: what nobody has
                if giver == taker or (giver >= 0 and unit_J[giver] == 0):
                    continue
                if giver >= 0:
                    unit_J[giver] -= 1
                if fits(room, unit_J, used_N):
                    total = estimate(duration_HJC, 0, width, unit_J)
                    if total < best:
                        best, from_j, to_j = total, giver, taker
                if giver >= 0:
                    unit_J[giver] += 1
            unit_J[taker] -= 1
        if to_j < 0:
            break
        least = best
        unit_J[to_j] += 1
        if from_j >= 0:
            unit_J[from_j] -= 1
    return least


@inner
def least_weighted(duration_HJC: FloatArray, room: Room, low_J: IntArray, high_J: IntArray, search: Search) -> float:
    """The division within a box with the least weighted time, into `trial_J`; that time, infinite where none fits."""
    for j in range(low_J.shape[0]):
        for c in range(low_J[j], high_J[j] + 1):
            total = 0.0
            for h in range(duration_HJC.shape[0]):
                total += search.weight_HJ[h, j] * duration_HJC[h, j, c]
            search.cost_JU[j, c] = total
    search.all_U[:] = 0.0
    for n in range(room.most_N.shape[0]):
        most = min(room.most_N[n], room.units)
        search.node_U[: most + 1] = 0.0
        for j in range(low_J.shape[0]):
            if room.node_J[j] == n:
                place_task(j, most, low_J[j], high_J[j], search)
        for u in range(room.units, -1, -1):  # downwards: what is overwritten is not read again
            best, got = inf, 0
            for v in range(min(u, most) + 1):
                cost = search.all_U[u - v] + search.node_U[v]
                if cost < best:
                    best, got = cost, v
            search.all_U[u], search.units_NU[n, u] = best, got
    if search.all_U[room.units] < inf:
        left = room.units
        for n in range(room.most_N.shape[0] - 1, -1, -1):
            here = search.units_NU[n, left]
            left -= here
            for j in range(low_J.shape[0] - 1, -1, -1):
                if room.node_J[j] == n:
                    search.trial_J[j] = search.units_JU[j, here]
                    here -= search.trial_J[j]
    return search.all_U[room.units]


@inner
def place_task(j: int, most: int, low: int, high: int, search: Search) -> None:
    """One task more on a node: its units from low to high, the rest for those before it."""
    for u in range(most + 1):
        best, got = inf, 0
        for c in range(low, min(high, u) + 1):
            cost = search.node_U[u - c] + search.cost_JU[j, c]
            if cost < best:
                best, got = cost, c
        search.next_U[u], search.units_JU[j, u] = best, got
    for u in range(most + 1):
        search.node_U[u] = search.next_U[u]


@inner
def shift_weights(duration_HJC: FloatArray, missing: float, search: Search) -> None:
    """Towards tasks that are slow under the trial, by a step that would close what is missing if all were linear."""
    H, J = search.weight_HJ.shape
    spread, widest = 0.0, 0.0
    for h in range(H):
        mean, low, high = 0.0, inf, 0.0
        for j in range(J):
            seconds = duration_HJC[h, j, search.trial_J[j]]
            mean += search.weight_HJ[h, j] * seconds
            low, high = min(low, seconds), max(high, seconds)
        for j in range(J):
            spread += search.weight_HJ[h, j] * (duration_HJC[h, j, search.trial_J[j]] - mean) ** 2
        widest = max(widest, high - low)
    if widest <= 0.0 or missing <= 0.0:
        return
    step = LARGEST_STEP / widest
    if spread * step > missing:
        step = missing / spread
    for h in range(H):
        high, total = 0.0, 0.0
        for j in range(J):
            high = max(high, duration_HJC[h, j, search.trial_J[j]])
        for j in range(J):
            search.weight_HJ[h, j] *= exp(step * (duration_HJC[h, j, search.trial_J[j]] - high))
            search.weight_HJ[h, j] = max(search.weight_HJ[h, j], LEAST_WEIGHT)
            total += search.weight_HJ[h, j]
        for j in range(J):
            search.weight_HJ[h, j] /= total


@inner
def fastest_in_box(duration_HJC: FloatArray, room: Room, box: int, search: Search) -> float:
    """Time of the window if every step had a division of its own; exact for one step, and for a box of one division."""
    total = 0.0
    within = Box(search.low_BJ[box], search.high_BJ[box])
    for h in range(duration_HJC.shape[0]):
        total += divide_exactly(duration_HJC[h], room, within, search.spare_J, search.used_N, search.step_J)
    return total


@inner
def tighten(room: Room, low_J: IntArray, high_J: IntArray, used_N: IntArray) -> bool:
    """Takes away what the least units of the other tasks leave no room for; whether a division is left."""
    if not fits(room, low_J, used_N):
        return False
    total = 0
    for j in range(low_J.shape[0]):
        total += low_J[j]
    for j in range(low_J.shape[0]):
        n = room.node_J[j]
        free = min(room.units - total, room.most_N[n] - used_N[n])
        high_J[j] = min(high_J[j], low_J[j] + free, room.most_J[j])
    return True


@inner
def bound_of_box(
    duration_HJC: FloatArray, room: Room, box: int, rounds: int, tolerance: float, search: Search, unit_J: IntArray
) -> float:
    """What no division of a box beats. A better division that is met on the way goes into `unit_J`."""
    low_J, high_J, width = search.low_BJ[box], search.high_BJ[box], duration_HJC.shape[0]
    bound = max(search.bound_B[box], fastest_in_box(duration_HJC, room, box, search))
    best = estimate(duration_HJC, 0, width, unit_J)
    factor, idle = 1.0, 0
    for _ in range(rounds):
        if bound >= best * (1.0 - tolerance):
            break
        search.spent[0] += 1
        value = least_weighted(duration_HJC, room, low_J, high_J, search)
        total = estimate(duration_HJC, 0, width, search.trial_J)
        if total < best:
            for j in range(unit_J.shape[0]):
                unit_J[j] = search.trial_J[j]
            best = exchange(duration_HJC, room, unit_J, search.used_N)
        idle += 1
        if value > bound:
            if value > bound + 0.01 * (best - bound):
                idle = 0
            bound = value
        if idle >= PATIENCE:
            factor, idle = 0.5 * factor, 0
            if factor < 0.01:
                break
        shift_weights(duration_HJC, factor * (best - value), search)
    return bound


@inner
def widest_task(low_J: IntArray, high_J: IntArray, search: Search) -> int:
    """The task whose weighted time differs most within a box; -1 where the box holds one division."""
    widest, most = -1, 0.0
    for j in range(low_J.shape[0]):
        if high_J[j] > low_J[j]:
            differs = abs(search.cost_JU[j, low_J[j]] - search.cost_JU[j, high_J[j]])
            if widest < 0 or differs > most:
                widest, most = j, differs
    return widest


@kernel
def divide_window(
    duration_HJC: FloatArray, room: Room, tolerance: float, rounds: int, search: Search, unit_J: IntArray
) -> float:
    """The division, into `unit_J`; what no division beats.

    Its time is at most 1 / (1 - tolerance) of that, unless weights were changed `rounds` times before, or no more boxes
    could be open.
    """
    width = duration_HJC.shape[0]
    divide_greedily(duration_HJC, 0, width, room, DISCOUNT, unit_J, search.greedy)
    exchange(duration_HJC, room, unit_J, search.used_N)
    search.weight_HJ[:] = 1.0 / unit_J.shape[0]
    for k in range(unit_J.shape[0]):
        search.low_BJ[0, k], search.high_BJ[0, k] = 0, room.most_J[k]
    tighten(room, search.low_BJ[0], search.high_BJ[0], search.used_N)
    search.bound_B[0] = 0.0
    search.spent[0] = 0
    opened, most, proven = 1, ROUNDS_AT_FIRST, inf  # proven: the least bound of what was put aside
    while opened > 0:
        top = opened - 1
        most = min(most, rounds - search.spent[0])
        bound = bound_of_box(duration_HJC, room, top, most, tolerance, search, unit_J)
        most = ROUNDS_IN_BOX
        opened -= 1
        j = widest_task(search.low_BJ[top], search.high_BJ[top], search)
        done = bound >= estimate(duration_HJC, 0, width, unit_J) * (1.0 - tolerance)
        ended = search.spent[0] >= rounds
        if done or j < 0 or ended or opened + 2 > search.low_BJ.shape[0]:
            proven = min(proven, bound)
            if ended:
                for b in range(opened):
                    proven = min(proven, search.bound_B[b])
                break
            continue
        opened = split(room, top, j, bound, search)
    return min(proven, estimate(duration_HJC, 0, width, unit_J))


@inner
def split(room: Room, top: int, j: int, bound: float, search: Search) -> int:
    """Two boxes for one, where each holds a division at all; the one around the last trial is looked at first.

    How many boxes are open then.
    """
    low, high = search.low_BJ[top, j], search.high_BJ[top, j]
    middle = min(max(search.trial_J[j], low), high - 1)
    nearer_low = search.trial_J[j] <= middle
    for k in range(search.low_BJ.shape[1]):
        search.low_BJ[top + 1, k] = search.low_BJ[top, k]
        search.high_BJ[top + 1, k] = search.high_BJ[top, k]
    first, second = top, top + 1  # the second is looked at first
    if nearer_low:
        search.low_BJ[first, j], search.high_BJ[second, j] = middle + 1, middle
    else:
        search.high_BJ[first, j], search.low_BJ[second, j] = middle, middle + 1
    search.bound_B[first], search.bound_B[second] = bound, bound
    if not tighten(room, search.low_BJ[second], search.high_BJ[second], search.used_N):
        return top + 1 if tighten(room, search.low_BJ[first], search.high_BJ[first], search.used_N) else top
    if tighten(room, search.low_BJ[first], search.high_BJ[first], search.used_N):
        return top + 2
    for k in range(search.low_BJ.shape[1]):
        search.low_BJ[first, k], search.high_BJ[first, k] = search.low_BJ[second, k], search.high_BJ[second, k]
    return top + 1
