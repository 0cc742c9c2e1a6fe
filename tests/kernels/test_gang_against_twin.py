"""Compiled division and planning against the definition, on tables full of ties and steps upwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.controllers import (
    DynamicMpc,
    DynamicWindow,
    EqualSplit,
    Exppo,
    StaticExact,
    StaticMpc,
)
from pilotage.gang.dividing import even_units
from pilotage.gang.problem import Budget, Problem
from pilotage.kernels.gang_control import plan_windows
from pilotage.kernels.gang_division import Room, window_index
from pilotage.model.workload import FloatArray
from reference import gang as twin
from reference.strategies import checked


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    tasks, units = draw(st.integers(1, 4)), draw(st.integers(0, 9))
    length, horizon = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    seed, coarse = draw(st.integers(0, 10**6)), draw(st.booleans())
    rng = np.random.default_rng(seed)
    falling_C = np.linspace(9, 1, units + 1)
    duration_THJC = falling_C + rng.uniform(0, 8, (length, horizon, tasks, 1)) + rng.normal(0, 1, units + 1)
    if coarse:
        duration_THJC = np.round(duration_THJC)  # ties
    actual_TJC = duration_THJC[:, 0] + np.round(rng.normal(0, 1, (length, tasks, 1)))
    budget = Budget(tasks * 100 + units * 10, 100, 10)
    penalty = draw(st.sampled_from([0.0, 1.0, 5.0, 40.0]))
    return Problem(budget, penalty, duration_THJC, actual_TJC, duration_THJC[0, 0])


def forecast(table_HJC: FloatArray) -> twin.Seconds:
    return lambda step, task, units: float(table_HJC[step, task, units])


@given(problem=problems())
@checked(80)
def test_divisions_and_estimates_of_all_windows(problem: Problem) -> None:
    found = problem.greedy
    for t, table_HJC in enumerate(problem.duration_THJC):
        for start in range(problem.horizon):
            for width in range(1, problem.horizon - start + 1):
                q = window_index(start, width, problem.horizon)
                wanted = twin.greedy(forecast(table_HJC), problem.tasks, start, width, problem.units)
                assert found.unit_TQJ[t, q].tolist() == wanted
                estimate = twin.estimate(forecast(table_HJC), wanted, start, width)
                assert found.estimate_TQ[t, q] == pytest.approx(estimate, rel=1e-12)


@given(
    problem=problems(),
    most=st.integers(0, 6),
    node=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    capacity=st.lists(st.integers(0, 9), min_size=3, max_size=3),
)
@checked(60)
def test_limits_of_tasks_and_nodes_are_kept(problem: Problem, most: int, node: list[int], capacity: list[int]) -> None:
    node = node[: problem.tasks]
    most_J = np.full(problem.tasks, min(most, problem.units))
    limited = replace(problem, limits=Room(problem.units, most_J, np.array(node), np.array(capacity)))
    found = limited.greedy
    assert (found.unit_TQJ <= most).all()
    table_HJC = problem.duration_THJC[0]
    for width in range(1, problem.horizon + 1):
        wanted = twin.greedy(
            forecast(table_HJC), problem.tasks, 0, width, problem.units, most=most, node=node, capacity=capacity
        )
        assert found.unit_TQJ[0, width - 1].tolist() == wanted
    for controller in (EqualSplit(), Exppo(), StaticExact(1)):
        unit_J = controller.run(limited).unit_TJ[0]
        assert (unit_J <= most).all()
        assert (np.bincount(node, unit_J, minlength=3) <= capacity).all()


def test_every_window_has_a_place_of_its_own() -> None:
    places = [window_index(start, width, 7) for start in range(7) for width in range(1, 8 - start)]
    assert places == list(range(28))


@given(problem=problems(), window=st.integers(1, 5), growth=st.sampled_from([1.0, 1.02, 1.3]), keep=st.booleans())
@checked(400)
def test_dynamic_controllers(problem: Problem, window: int, growth: float, keep: bool) -> None:
    window = min(window, problem.horizon)
    course = (DynamicMpc if keep else DynamicWindow)(window, growth).run(problem)
    divisions, new, durations = twin.dynamic(
        [forecast(table_HJC) for table_HJC in problem.duration_THJC],
        [forecast(table_JC[None]) for table_JC in problem.actual_TJC],
        problem.tasks,
        problem.units,
        window,
        growth,
        problem.penalty,
        may_keep=keep,
    )
    assert course.unit_TJ.tolist() == divisions
    assert course.divided_T.tolist() == new
    assert course.seconds_T.tolist() == durations


@given(problem=problems(), left=st.integers(1, 6))
@checked(40)
def test_plans(problem: Problem, left: int) -> None:
    H = problem.horizon
    cost_H, width_H = np.full(H + 1, np.nan), np.zeros(H, np.int64)
    plan_windows(problem.greedy.estimate_TQ[0], left, H, H, 1.02, problem.penalty, cost_H, width_H)
    seconds = forecast(problem.duration_THJC[0])
    cost, best = twin.plan(seconds, problem.tasks, problem.units, left, H, 1.02, problem.penalty)
    assert cost_H.tolist() == pytest.approx(cost, rel=1e-12)
    assert width_H.tolist() == best


@given(problem=problems(), window=st.integers(1, 5))
@checked(40)
def test_static_controller_divides_every_so_many_steps(problem: Problem, window: int) -> None:
    window = min(window, problem.horizon)
    course = StaticMpc(window).run(problem)
    assert course.divided_T.tolist() == [t % window == 0 for t in range(problem.length)]
    for t in range(problem.length):
        seconds = forecast(problem.duration_THJC[t - t % window])
        assert course.unit_TJ[t].tolist() == twin.greedy(seconds, problem.tasks, 0, window, problem.units)
        actual = forecast(problem.actual_TJC[t][None])
        assert course.seconds_T[t] == twin.superstep(actual, 0, course.unit_TJ[t].tolist())


@given(problem=problems())
@checked(40)
def test_a_constant_division_takes_as_long_as_its_slowest_task(problem: Problem) -> None:
    course, unit_J = EqualSplit().run(problem), even_units(problem.room)
    assert (course.unit_TJ == unit_J).all()
    slowest = [max(row_C[units] for row_C, units in zip(table, unit_J, strict=True)) for table in problem.actual_TJC]
    assert course.seconds_T.tolist() == slowest
