"""Planning over possible futures as it is defined.

`seconds(size, task, units)` is how long a task takes; sizes are places on a grid. A step of a future is a list of
sizes, one per task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Seconds = Callable[[int, int, int], float]
Step = Sequence[int]


def possible_steps(
    forecast: Sequence[Sequence[float]],
    missed: Sequence[Sequence[Sequence[float]]],
    spread: float,
    last: int,
    start: int,
) -> list[list[Step]]:
    """For each step from `start` on, its futures: misses count from `start`, sizes are 0 .. last."""
    return [
        [
            [
                int(min(max(size + spread * miss, 0.0), float(last)) + 0.5)
                for size, miss in zip(forecast[h], future[h - start], strict=True)
            ]
            for future in missed
        ]
        for h in range(start, len(forecast))
    ]


def slowest(seconds: Seconds, step: Step, units: Sequence[int]) -> tuple[float, int]:
    durations = [seconds(size, task, given) for task, (size, given) in enumerate(zip(step, units, strict=True))]
    return max(durations), durations.index(max(durations))


def total(seconds: Seconds, steps: Sequence[Step], units: Sequence[int]) -> float:
    return sum(slowest(seconds, step, units)[0] for step in steps)


@dataclass(frozen=True)
class Limits:
    """Units in all, per task, and of the tasks of a node together."""

    budget: int
    most: Sequence[int]
    node: Sequence[int]
    capacity: Sequence[int]

    def kept(self, units: Sequence[int]) -> bool:
        on_node = [sum(u for u, n in zip(units, self.node, strict=True) if n == k) for k in range(len(self.capacity))]
        return all(used <= limit for used, limit in zip(on_node, self.capacity, strict=True))


def moved(units: Sequence[int], taker: int, giver: int | None = None) -> list[int]:
    return [u + (task == taker) - (task == giver) for task, u in enumerate(units)]


def gains(
    seconds: Seconds, steps: Sequence[Step], units: Sequence[int], most: Sequence[int], last: int
) -> dict[int, float]:
    """By task that is the slowest somewhere and may have more: what one more unit would save there."""
    found: dict[int, float] = {}
    for step in steps:
        held, task = slowest(seconds, step, units)
        more = min(units[task] + 1, last)
        found[task] = found.get(task, 0.0) + held - seconds(step[task], task, more)
    return {task: found[task] for task in sorted(found) if units[task] < most[task]}


def divide(seconds: Seconds, steps: Sequence[Step], limits: Limits, swaps: int) -> tuple[list[int], float]:
    units, budget, most = [0] * len(limits.most), limits.budget, limits.most
    for _ in range(budget):
        gain = gains(seconds, steps, units, most, budget)
        gain = {task: own for task, own in gain.items() if limits.kept(moved(units, task))}
        if not gain:
            break
        units[max(gain, key=lambda task: gain[task])] += 1
    least = total(seconds, steps, units)
    for _ in range(swaps):
        gain = gains(seconds, steps, units, most, budget)
        if not gain:
            break
        taker = max(gain, key=lambda task: gain[task])
        tried = []
        for giver in range(len(units)):
            other = moved(units, taker, giver)
            if giver != taker and units[giver] > 0 and limits.kept(other):
                tried.append((total(seconds, steps, other), giver))
        if not tried or min(tried)[0] >= least:
            break
        least, giver = min(tried)
        units = moved(units, taker, giver)
    return units, least


def decide(
    seconds: Seconds,
    steps_from: Sequence[Sequence[Sequence[Step]]],  # by start, step behind it, future
    current: Sequence[int] | None,
    limits: Limits,
    swaps: int,
    left: int,
    penalty: float,
) -> list[int] | None:
    """The division to make; None = keep."""
    futures, horizon = len(steps_from[0][0]), min(len(steps_from), left)
    cost, best = [0.0] * (horizon + 1), [[0]] * horizon
    for start in reversed(range(horizon)):
        tried = []
        for width in range(1, horizon - start + 1):
            flat = [step for futures_of_step in steps_from[start][:width] for step in futures_of_step]
            units, spent = divide(seconds, flat, limits, swaps)
            behind = cost[start + width] + penalty if start + width < horizon else 0.0
            tried.append((spent / futures + behind, width, units))
        cost[start], _, best[start] = min(tried)
    if current is not None:
        for width in range(1, horizon + 1):
            flat = [step for futures_of_step in steps_from[0][:width] for step in futures_of_step]
            behind = cost[width] + penalty if width < horizon else 0.0
            if total(seconds, flat, current) / futures + behind < cost[0] + penalty:
                return None
    return best[0]
