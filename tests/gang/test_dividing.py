"""Exact divisions against trying all of them; limits of tasks and nodes are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.dividing import TaskLimit, bound, even_units, exact_division, exact_window, room_of
from pilotage.gang.problem import Budget, Problem, open_room
from pilotage.kernels.gang_division import Room
from pilotage.model.errors import InputError
from reference import exact_division as twin
from reference.strategies import checked
from reference.windows import kept, tables


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


@given(seed=st.integers(0, 10**6), steps=st.integers(1, 8), nodes=st.integers(1, 3))
@checked(12)
def test_the_division_of_a_window_is_not_worse_than_the_published_one(seed: int, steps: int, nodes: int) -> None:
    rng, tasks, units = np.random.default_rng(seed), 6, 60
    duration_HJC = tables(rng, steps, tasks, units, "convex") + np.abs(rng.normal(0, 0.1, (steps, tasks, units + 1)))
    room = Room(
        units,
        rng.integers(5, units + 1, tasks),
        rng.integers(0, nodes, tasks),
        rng.integers(units // nodes, units + 1, nodes),
    )
    problem = Problem(Budget(1200, 100, 10), 0.0, duration_HJC[None], duration_HJC[:1], duration_HJC[0], room)
    assert problem.units == units
    found = exact_window(duration_HJC, room)
    assert kept(room, found.unit_J)
    assert found.seconds <= problem.greedy.estimate_TQ[0, steps - 1] * (1 + 1e-12)
    each = sum(exact_division(table_JC, room)[1] for table_JC in duration_HJC)
    assert each <= found.seconds * (1 + 1e-9)
    assert found.gap <= 0.02


def test_a_search_that_ends_early_says_how_far_it_came() -> None:
    duration_HJC = tables(np.random.default_rng(3), 6, 4, 30, "any")
    room = open_room(30, 4)
    hasty, patient = exact_window(duration_HJC, room, 0.0, work=0), exact_window(duration_HJC, room, 0.05)
    assert hasty.gap > 0.05 >= patient.gap
    assert hasty.bound <= patient.seconds


def test_even_divisions_keep_to_limits() -> None:
    room = Room(10, np.array([9, 1, 9, 9]), np.array([0, 0, 1, 1]), np.array([10, 3]))
    assert even_units(room).tolist() == [3, 1, 2, 1]
    assert even_units(open_room(10, 4)).tolist() == [3, 3, 2, 2]


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
