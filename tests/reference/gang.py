"""The published gang planning as it is defined, one window after the other, without tables of divisions.

A forecast is a function seconds(step, task, units); steps are counted from the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Seconds = Callable[[int, int, int], float]

LONGEST = 15


def superstep(seconds: Seconds, step: int, units: Sequence[int]) -> float:
    return max(seconds(step, task, given) for task, given in enumerate(units))


def estimate(seconds: Seconds, units: Sequence[int], start: int, width: int) -> float:
    return sum(superstep(seconds, step, units) for step in range(start, start + width))


def greedy(
    seconds: Seconds,
    tasks: int,
    start: int,
    width: int,
    budget: int,
    discount: float = 0.95,
    most: int = 10**9,
    node: Sequence[int] = (),
    capacity: Sequence[int] = (),
) -> list[int]:
    """`node` says where a task is, `capacity` how many units the tasks of a node may have; empty: no such limit."""
    units = [0] * tasks

    def full(task: int) -> bool:
        return bool(node) and sum(units[k] for k in range(tasks) if node[k] == node[task]) >= capacity[node[task]]

    for _ in range(budget):
        improvement: dict[int, float] = {}
        for h in range(width):
            durations = [seconds(start + h, task, units[task]) for task in range(tasks)]
            slow = durations.index(max(durations))
            gain = durations[slow] - seconds(start + h, slow, units[slow] + 1)
            improvement[slow] = improvement.get(slow, 0.0) + discount**h * gain
        open_tasks = [task for task in improvement if units[task] < most and not full(task)]
        if not open_tasks:
            break
        units[max(open_tasks, key=lambda task: improvement[task])] += 1
    return units


def plan(
    seconds: Seconds, tasks: int, budget: int, left: int, horizon: int, growth: float, penalty: float
) -> tuple[list[float], list[int]]:
    """Cost from each coming step on and the best width there."""
    cost, best = [0.0] * (horizon + 1), [0] * horizon
    for start in reversed(range(min(horizon, left))):
        tried = []
        for width in range(1, min(horizon - start, left, LONGEST) + 1):
            units = greedy(seconds, tasks, start, width, budget)
            behind = cost[start + width] + penalty if start + width < horizon else 0.0
            tried.append((estimate(seconds, units, start, width) * growth**width + behind, width))
        cost[start], best[start] = min(tried)
    return cost, best


def dynamic(
    forecasts: Sequence[Seconds],
    actual: Sequence[Seconds],
    tasks: int,
    budget: int,
    horizon: int,
    growth: float,
    penalty: float,
    *,
    may_keep: bool,
) -> tuple[list[list[int]], list[bool], list[float]]:
    """DynamicMPC, or DynamicWindow without keeping: divisions, whether they are new, durations."""
    divisions: list[list[int]] = []
    new, durations = [], []
    until = 0
    for t, seconds in enumerate(forecasts):
        left = len(forecasts) - t
        divide = t >= until
        if divide:
            cost, best = plan(seconds, tasks, budget, left, horizon, growth, penalty)
            if may_keep and t > 0:
                keeping = min(
                    estimate(seconds, divisions[-1], 0, k) * growth**k + (cost[k] + penalty if k < horizon else 0.0)
                    for k in range(1, min(horizon, left) + 1)
                )
                divide = not keeping < cost[0] + penalty
            until = t + (1 if may_keep else best[0])
        divisions.append(greedy(seconds, tasks, 0, best[0], budget) if divide else divisions[-1])
        new.append(divide)
        durations.append(superstep(actual[t], 0, divisions[-1]))
    return divisions, new, durations
