"""What a leftover of a device is worth, from the sizes of share pods alone: functions of 0..1000 milli.

The most telling ones are prices in the packing problem of the workload: pack share pods into devices of 1000 milli so
that most is allocated, where those that arrive early must be packed (a scheduler may not turn away what fits). Its dual
values say what packing one more pod of a size is worth; a leftover is worth the most that a set of pods in it is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray
from pilotage.policies.linear_program import LinearProgram, joined, solve

BELOW_FULL = (2, 8, 20)  # percent of capacity by which the mandatory load stays below the most that can be packed
FUNCTIONS = (
    "left",
    "some_left",
    "waste_of_random_filling",
    "waste_of_best_filling",
    "pods_that_fit",
    "half_full",
    "filled_by_one",
    "filled_by_two",
    "usable",
    *(f"packing_price_{percent}" for percent in BELOW_FULL),
)
GRID = 10  # milli, of the packing problem
STEPS = GPU_MILLI // GRID
DEVICES = 6000  # of the packing problem: large enough that whole numbers do not matter
LOAD = 1.3  # offered
DRAWS = 8  # of the workload, averaged: prices of one draw jump
FREQUENT = 0.02  # share of the share pods that makes a size one to plan with
NEAR = 25  # milli that count as filled


@lru_cache(maxsize=256)
def leftover_functions(sizes: tuple[int, ...], pods: tuple[int, ...], whole: int) -> FloatArray:
    """FUNCTIONS by milli left. `pods` of each share size, `whole` devices asked for as a whole, of one workload."""
    left = np.arange(GPU_MILLI + 1) / GPU_MILLI
    rows = dict.fromkeys(FUNCTIONS, np.zeros_like(left))
    rows |= {"left": left, "some_left": (left > 0).astype(np.float64), "half_full": 4 * left * (1 - left)}
    asked = np.array([*sizes, GPU_MILLI]) * np.array([*pods, whole])
    asked_within = np.cumsum(np.bincount([*sizes, GPU_MILLI], weights=asked, minlength=GPU_MILLI + 1))
    rows["usable"] = left * asked_within / max(asked.sum(), 1)  # by the share of the GPU asked for that fits
    if not sizes:
        rows |= dict.fromkeys(FUNCTIONS[-len(BELOW_FULL) :], (left == 1).astype(np.float64))
        return np.array([*rows.values()])
    size_S, weight_S = np.array(sizes), np.array(pods) / sum(pods)
    density = np.zeros(GPU_MILLI + 1)
    np.add.at(density, size_S, weight_S)
    rows["waste_of_random_filling"] = _random_waste(size_S, weight_S)
    frequent = size_S[weight_S >= FREQUENT]
    rows["waste_of_best_filling"] = left - _best_filling(frequent, frequent[None] / GPU_MILLI)[0]
    rows["pods_that_fit"] = np.cumsum(density)
    rows["filled_by_one"] = _within(np.cumsum(density))
    rows["filled_by_two"] = _within(np.cumsum(np.convolve(density, density)[: GPU_MILLI + 1]))
    rows |= zip(FUNCTIONS[-len(BELOW_FULL) :], packing_prices(size_S, np.array(pods), whole), strict=True)
    return np.array([*rows.values()])


def _within(cumulated: FloatArray) -> FloatArray:
    """Share that leaves less than NEAR milli."""
    near: FloatArray = cumulated - np.concatenate([np.zeros(NEAR), cumulated[:-NEAR]])
    return near


def _random_waste(size_S: IntArray, weight_S: FloatArray) -> FloatArray:
    """What remains when pods drawn at random, of those that fit, fill the device."""
    waste = np.zeros(GPU_MILLI + 1)
    for left in range(1, GPU_MILLI + 1):
        fits = size_S <= left
        share = weight_S[fits].sum()
        waste[left] = (weight_S[fits] * waste[left - size_S[fits]]).sum() / share if share else left / GPU_MILLI
    return waste


def _best_filling(size_S: IntArray, value_WS: FloatArray) -> FloatArray:
    """The most that a set of pods within so much is worth, for each row of values."""
    worth = np.zeros((len(value_WS), GPU_MILLI + 1))
    order = np.argsort(size_S)
    size_S, value_WS = size_S[order], value_WS[:, order]
    for left in range(1, GPU_MILLI + 1):
        fits = int(np.searchsorted(size_S, left, side="right"))
        worth[:, left] = worth[:, left - 1]
        if fits:
            filled = value_WS[:, :fits] + worth[:, left - size_S[:fits]]
            np.maximum(worth[:, left], filled.max(axis=1), out=worth[:, left])
    return worth


def packing_prices(size_S: IntArray, pods_S: IntArray, whole: int) -> FloatArray:
    """Price of every leftover, a row for each of BELOW_FULL: the mean over some draws of the workload."""
    steps_S = np.maximum(np.round(size_S / GRID).astype(np.int64), 1)
    steps, place_S = np.unique(steps_S, return_inverse=True)
    pods: FloatArray = np.bincount(place_S, weights=pods_S).astype(np.float64)
    scale = LOAD * STEPS * DEVICES / float((steps * pods).sum() + STEPS * whole)
    full = _most_mandatory(steps, pods * scale, whole * scale)
    random = np.random.Generator(np.random.PCG64(0))
    values: list[list[FloatArray]] = [[] for _ in BELOW_FULL]
    for _ in range(DRAWS):
        drawn, drawn_whole = random.poisson(pods * scale).astype(np.float64), random.poisson(whole * scale)
        for found, percent in zip(values, BELOW_FULL, strict=True):
            value_S = _values(steps, drawn, drawn_whole, (full - percent) / 100 / LOAD)
            if value_S is not None:
                found.append(value_S[place_S])
    return np.array(
        [
            _best_filling(size_S, np.array(found)).mean(axis=0) if found else np.arange(GPU_MILLI + 1) / GPU_MILLI
            for found in values
        ]
    )


def _most_mandatory(step_S: IntArray, pods_S: FloatArray, whole: float) -> int:
    """The highest load, in percent of the devices, whose pods can all be packed."""
    for percent in range(96, 20, -2):
        if _values(step_S, pods_S, whole, percent / 100 / LOAD) is not None:
            return percent
    return 20


def _values(step_S: IntArray, pods_S: FloatArray, whole: float, mandatory: float) -> FloatArray | None:
    """What one more pod of each size is worth; None when the mandatory share of the pods cannot be packed.

    An arc-flow program. Variables: flow on arcs between fill levels, items packed of each size, shared devices, whole
    devices. Flow may end at any level: the rest of the device is lost.
    """
    S = len(step_S)
    tails = [np.arange(STEPS - step + 1) for step in step_S.tolist()]
    item_A = np.repeat(np.arange(S), [len(tail) for tail in tails])
    tail_A = np.concatenate(tails)
    head_A = tail_A + step_S[item_A]
    A, inside = len(tail_A), np.flatnonzero(head_A < STEPS)
    # Flow out of a level is at most the flow into it; out of level 0 goes one unit per shared device.
    flow = (
        np.concatenate([np.ones(A), -np.ones(len(inside)), [-1.0, 1.0, 1.0]]),
        np.concatenate([tail_A, head_A[inside], [0, STEPS, STEPS]]),
        np.concatenate([np.arange(A), inside, [A + S, A + S, A + S + 1]]),
    )
    packed = (
        np.concatenate([np.ones(A), -np.ones(S)]),
        STEPS + 1 + np.concatenate([item_A, np.arange(S)]),
        np.concatenate([np.arange(A), A + np.arange(S)]),
    )
    program = LinearProgram(
        cost_C=np.concatenate([np.zeros(A), -step_S / STEPS, [0.0, -1.0]]),
        entries=joined(flow, packed),
        limit_R=np.concatenate([np.zeros(STEPS), [DEVICES], np.zeros(S)]),
        equalities=S,
        low_C=np.concatenate([np.zeros(A), np.floor(mandatory * pods_S), [0.0, np.floor(mandatory * whole)]]),
        high_C=np.concatenate([np.full(A, DEVICES), pods_S, [DEVICES, whole]]),
    )
    best = solve(program)
    return np.abs(best.price_R[-S:]) if best.status == "optimal" else None
