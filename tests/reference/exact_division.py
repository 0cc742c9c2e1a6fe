"""Exact divisions by trying all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

Rows = Sequence[Sequence[float]]


def best_seconds(
    durations: Rows, budget: int, most: Sequence[int], node: Sequence[int], capacity: Sequence[int]
) -> float:
    """The least time of the slowest task over all divisions that keep to the limits."""
    return best_window([durations], budget, most, node, capacity)


def best_window(
    steps: Sequence[Rows], budget: int, most: Sequence[int], node: Sequence[int], capacity: Sequence[int]
) -> float:
    """The least sum of the steps' times over all divisions that keep to the limits, one for all steps."""
    tried = []
    for units in product(*(range(limit + 1) for limit in most)):
        on_node = [sum(u for u, n in zip(units, node, strict=True) if n == k) for k in range(len(capacity))]
        if sum(units) <= budget and all(used <= limit for used, limit in zip(on_node, capacity, strict=True)):
            tried.append(sum(max(row[u] for row, u in zip(rows, units, strict=True)) for rows in steps))
    return min(tried)
