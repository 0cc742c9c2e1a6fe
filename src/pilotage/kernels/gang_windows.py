"""The learned window controller: what it sees, what it chooses, what comes of it.

Axes as in gang_futures, and: A actions (0 keeps the division, a divides anew for a supersteps), I columns that are
seen of an action, U units of the hidden layer. An action is judged by its own row: their number may be any.
"""

from __future__ import annotations

from math import log, tanh
from typing import NamedTuple

from pilotage.kernels.compiling import inner, kernel
from pilotage.kernels.gang_control import copy_units, plan_windows
from pilotage.kernels.gang_division import slowest, window_index
from pilotage.kernels.gang_futures import PlaceArray, sum_over
from pilotage.model.workload import FloatArray, IntArray

INPUTS = 8  # columns that `observe` fills; their names are with the architecture of the policy
LEAST_SCALE = 0.1  # of a superstep: penalties below it are not told apart


class Stretch(NamedTuple):
    """Supersteps as tables: possible sizes, divisions by window, their mean time by window and by step ahead."""

    duration_JCG: FloatArray
    place_TJX: PlaceArray
    unit_TQJ: IntArray
    estimate_TQ: FloatArray
    ahead_TAH: FloatArray  # of the divisions of windows 1, 2, .. from now on
    actual_TJC: FloatArray
    stored: int  # steps ahead of the windows


class Moment(NamedTuple):
    """Memory for one decision."""

    cost_H: FloatArray
    width_H: IntArray
    ahead_AH: FloatArray
    seen_AI: FloatArray
    current_J: IntArray


class Network(NamedTuple):
    """One hidden layer beside the plan's own judgement. With `outer_U` all zero the plan decides."""

    plan: FloatArray  # one number: how much the plan's judgement counts
    inner_UI: FloatArray
    bias_U: FloatArray
    outer_U: FloatArray


@kernel
def look_along(duration_JCG: FloatArray, place_TJX: PlaceArray, unit_TQJ: IntArray, ahead_TAH: FloatArray) -> None:
    """Mean time of each step ahead under the division of each window that begins now."""
    stored = ahead_TAH.shape[2]
    futures = place_TJX.shape[2] // stored
    for t in range(place_TJX.shape[0]):
        for a in range(stored):
            for h in range(stored):
                ahead_TAH[t, a, h] = (
                    sum_over(duration_JCG, place_TJX[t], h * futures, (h + 1) * futures, unit_TQJ[t, a]) / futures
                )


@inner
def cost_of_action(ahead_H: FloatArray, horizon: int, penalty: float, cost_H: FloatArray) -> float:
    """The least cost when a division stays for some steps and the plan follows."""
    least = 0.0
    spent = 0.0
    for width in range(1, horizon + 1):
        spent += ahead_H[width - 1]
        cost = spent
        if width < horizon:
            cost += cost_H[width] + penalty
        if width == 1 or cost < least:
            least = cost
    return least


@kernel
def observe(known: Stretch, t: int, left: int, penalty: float, may_keep: bool, moment: Moment) -> None:
    """What is seen of each action at superstep t. Where nothing is there to be kept, keeping looks like window 1."""
    stored, actions = known.stored, moment.seen_AI.shape[0]
    futures, horizon = known.place_TJX.shape[2] // stored, min(stored, left)
    plan_windows(known.estimate_TQ[t], left, horizon, stored, 1.0, penalty, moment.cost_H, moment.width_H)
    for a in range(actions):
        for h in range(stored):
            if a > 0:
                moment.ahead_AH[a, h] = known.ahead_TAH[t, a - 1, h]
            elif may_keep:
                first = h * futures
                total = sum_over(known.duration_JCG, known.place_TJX[t], first, first + futures, moment.current_J)
                moment.ahead_AH[0, h] = total / futures
            else:
                moment.ahead_AH[0, h] = known.ahead_TAH[t, 0, h]
    least_cost, least_next = 0.0, 0.0
    for a in range(actions):
        new = penalty if a > 0 or not may_keep else 0.0
        cost = cost_of_action(moment.ahead_AH[a], horizon, penalty, moment.cost_H) + new
        moment.seen_AI[a, 0] = cost
        if a == 0 or cost < least_cost:
            least_cost = cost
        if a == 0 or moment.ahead_AH[a, 0] < least_next:
            least_next = moment.ahead_AH[a, 0]
    scale = max(least_next, 1e-9)
    for a in range(actions):
        few, all_steps = 0.0, 0.0
        for h in range(horizon):
            all_steps += moment.ahead_AH[a, h]
            if h < 3:
                few += moment.ahead_AH[a, h]
        seen_I = moment.seen_AI[a]
        seen_I[0] = (seen_I[0] - least_cost) / (penalty + LEAST_SCALE * scale)
        seen_I[1] = moment.ahead_AH[a, 0] / scale - 1.0
        seen_I[2] = few / (min(horizon, 3) * scale) - 1.0
        seen_I[3] = all_steps / (horizon * scale) - 1.0
        seen_I[4] = 1.0 if a == 0 else 0.0
        seen_I[5] = a / stored
        seen_I[6] = log(1.0 + penalty / scale)
        seen_I[7] = horizon / stored


@kernel
def choose_action(seen_AI: FloatArray, network: Network, may_keep: bool) -> int:
    """The action with the highest score, the first among equals."""
    best, most = -1, 0.0
    for a in range(0 if may_keep else 1, seen_AI.shape[0]):
        score = -network.plan[0] * seen_AI[a, 0]
        for u in range(network.bias_U.shape[0]):
            total = network.bias_U[u]
            for i in range(seen_AI.shape[1]):
                total += network.inner_UI[u, i] * seen_AI[a, i]
            score += network.outer_U[u] * tanh(total)
        if best < 0 or score > most:
            best, most = a, score
    return best


@kernel
def act(known: Stretch, t: int, action: int, moment: Moment) -> float:
    """Carries an action out; the time of the superstep."""
    if action > 0:
        copy_units(known.unit_TQJ[t, window_index(0, action, known.stored)], moment.current_J)
    j = slowest(known.actual_TJC[t], moment.current_J)
    return known.actual_TJC[t, j, moment.current_J[j]]


@kernel
def run_learned(
    known: Stretch, first: int, length: int, penalty: float, network: Network, moment: Moment, action_T: IntArray
) -> float:
    """Total time of supersteps from `first` on, new divisions included; what was done."""
    total = 0.0
    for t in range(first, first + length):
        may_keep = t > first
        observe(known, t, first + length - t, penalty, may_keep, moment)
        action = choose_action(moment.seen_AI, network, may_keep)
        action_T[t - first] = action
        total += act(known, t, action, moment)
        if action > 0 and may_keep:
            total += penalty
    return total
