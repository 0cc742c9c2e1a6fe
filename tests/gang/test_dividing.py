"""Exact divisions against trying all of them; limits of tasks and nodes are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.dividing import TaskLimit, bound, exact_division, room_of
from pilotage.gang.problem import Budget
from pilotage.model.errors import InputError
from reference import exact_division as twin
from reference.strategies import checked


@given(
    tasks=st.integers(1, 4),
    units=st.integers(0, 6),
    seed=st.integers(0, 10**6),
    falling=st.booleans(),
    limits=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=4, max_size=4),
    capacity=st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
@checked(150)
def test_no_division_is_faster(
    tasks: int,
    units: int,
    seed: int,
    falling: bool,
    limits: list[tuple[int, int]],
    capacity: tuple[int, int],
) -> None:
    rng = np.random.default_rng(seed)
    duration_JC = np.round(rng.uniform(1, 20, (tasks, units + 1)), 1)
    if falling:
        duration_JC = -np.sort(-duration_JC, axis=1)
    budget = Budget(tasks * 100 + units * 10, 100, 10)
    own = [TaskLimit(100 + 10 * most, f"n{node}") for most, node in limits[:tasks]]
    on_node = [sum(limit.node == f"n{k}" for limit in own) for k in range(2)]
    nodes = {f"n{k}": on_node[k] * 100 + 10 * capacity[k] for k in range(2)}
    room = room_of(budget, own, nodes)
    unit_J, seconds = exact_division(duration_JC, room)
    most = [min(limit, units) for limit, _ in limits[:tasks]]
    node = [k for _, k in limits[:tasks]]
    assert seconds == twin.best_seconds(duration_JC.tolist(), units, most, node, capacity)
    assert seconds == max(duration_JC[j, unit_J[j]] for j in range(tasks))
    assert unit_J.sum() <= units
    assert all(unit_J[j] <= most[j] for j in range(tasks))
    for k in range(2):
        assert sum(int(unit_J[j]) for j in range(tasks) if node[j] == k) <= capacity[k]


def test_the_bound_is_one_exact_division_per_superstep() -> None:
    rng = np.random.default_rng(5)
    actual_TJC = rng.uniform(1, 9, (7, 3, 5))
    room = room_of(Budget(340, 100, 10), [TaskLimit()] * 3)
    assert bound(actual_TJC, room).tolist() == [exact_division(table_JC, room)[1] for table_JC in actual_TJC]


def test_limits_that_leave_less_than_the_least_share_are_refused() -> None:
    with pytest.raises(InputError, match="most: is 50; expected at least the least share, 100"):
        room_of(Budget(300, 100, 10), [TaskLimit(50)])
    with pytest.raises(InputError, match="nodes: a has 150; expected 2 x 100 for its tasks"):
        room_of(Budget(300, 100, 10), [TaskLimit(node="a"), TaskLimit(node="a")], {"a": 150})
