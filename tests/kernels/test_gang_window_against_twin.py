"""The exact division of a window against trying all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.dividing import exact_window
from pilotage.kernels.gang_division import Room
from reference import exact_division as twin
from reference.strategies import checked
from reference.windows import kept, tables


@given(
    tasks=st.integers(1, 3),
    units=st.integers(0, 6),
    steps=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(["falling", "convex", "any", "coarse"]),
    limits=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=3, max_size=3),
    capacity=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    tolerance=st.sampled_from([0.0, 0.001, 0.05]),
)
@checked(150)
def test_no_division_of_a_window_is_faster_beyond_the_tolerance(
    tasks: int,
    units: int,
    steps: int,
    seed: int,
    shape: str,
    limits: list[tuple[int, int]],
    capacity: tuple[int, int],
    tolerance: float,
) -> None:
    duration_HJC = tables(np.random.default_rng(seed), steps, tasks, units, shape)
    most, node = [min(limit, units) for limit, _ in limits[:tasks]], [k for _, k in limits[:tasks]]
    room = Room(units, np.array(most), np.array(node), np.array(capacity))
    found = exact_window(duration_HJC, room, tolerance)
    best = twin.best_window(duration_HJC.tolist(), units, most, node, capacity)
    assert found.bound <= best * (1 + 1e-9)
    assert best <= found.seconds * (1 + 1e-9)
    assert found.seconds <= best / (1 - tolerance) * (1 + 1e-9)
    assert kept(room, found.unit_J)
