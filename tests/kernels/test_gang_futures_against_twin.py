"""Compiled planning over possible futures against the definition, in whole numbers so that ties are ties."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.foresight import Outlooks
from pilotage.gang.problem import Budget, Problem
from pilotage.gang.scenario_mpc import Planner, ScenarioMpc
from pilotage.gang.uncertainty import Uncertainty
from pilotage.kernels.gang_division import Room
from pilotage.kernels.gang_futures import Grid
from reference import gang_futures as twin
from reference.strategies import checked


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    tasks, units = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    length, horizon, last = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    falling_C = np.linspace(24, 2, units + 1)[:, None]
    duration_JCG = np.round(
        falling_C + rng.integers(0, 8, (tasks, 1, last + 1)) + rng.normal(0, 2, (tasks, units + 1, 1))
    )
    before = draw(st.integers(0, 12))
    forecast_THJ = rng.integers(0, last + 1, (length, horizon, tasks)).astype(np.float64)
    missed_RHJ = rng.integers(-2, 3, (before + length, horizon, tasks)).astype(np.float64)
    actual_TJC = duration_JCG[:, :, rng.integers(0, last + 1, length)].transpose(2, 0, 1)
    known = Uncertainty(forecast_THJ, missed_RHJ, before, Grid(duration_JCG, 0.0, float(last)))
    budget = Budget(tasks * 100 + units * 10, 100, 10)
    most_J = np.array(draw(st.lists(st.integers(0, units), min_size=tasks, max_size=tasks)))
    node_J = np.array(draw(st.lists(st.integers(0, 1), min_size=tasks, max_size=tasks)))
    room = Room(units, most_J, node_J, np.array(draw(st.tuples(*(st.integers(0, units) for _ in range(2))))))
    penalty = draw(st.sampled_from([0.0, 2.0, 8.0]))
    middle_JC = actual_TJC[0]
    return Problem(budget, penalty, actual_TJC[:, None], actual_TJC, middle_JC, room, known)


@given(problem=problems(), futures=st.sampled_from([1, 2, 4]), swaps=st.integers(0, 3), seed=st.integers(0, 9))
@checked(400)
def test_decisions(problem: Problem, futures: int, swaps: int, seed: int) -> None:
    uncertainty = problem.uncertainty
    assert uncertainty is not None
    grid, room = uncertainty.grid, problem.room
    horizon = uncertainty.forecast_THJ.shape[1]
    controller = ScenarioMpc(horizon, futures, spread=1.0, swaps=swaps, seed=seed)
    course = controller.run(problem)
    planner, chance = Planner(controller, problem), np.random.default_rng(seed)
    current: list[int] | None = None
    for t in range(problem.length):
        known = uncertainty.moments(t, horizon)
        missed_FHJ = np.zeros((futures, horizon, problem.tasks))
        if len(known) >= futures:
            missed_FHJ = uncertainty.missed_RHJ[chance.choice(known, futures, replace=False)]
        steps_from = [
            twin.possible_steps(
                uncertainty.forecast_THJ[t].tolist(), missed_FHJ.tolist(), 1.0, int(grid.largest), start
            )
            for start in range(horizon)
        ]
        wanted = twin.decide(
            lambda size, task, units: float(grid.duration_JCG[task, units, size]),
            steps_from,
            current,
            twin.Limits(room.units, room.most_J.tolist(), room.node_J.tolist(), room.most_N.tolist()),
            swaps,
            problem.length - t,
            problem.penalty,
        )
        planned_J = planner.plan(t, None if current is None else np.array(current))
        assert (None if planned_J is None else planned_J.tolist()) == wanted
        assert bool(course.divided_T[t]) == (wanted is not None)
        current = current if wanted is None else wanted
        assert course.unit_TJ[t].tolist() == current
        used_N = np.bincount(room.node_J, course.unit_TJ[t], minlength=2)
        assert (used_N <= room.most_N).all()


@given(problem=problems(), length=st.integers(1, 5), penalty=st.sampled_from([0.0, 5.0]))
@checked(30)
def test_parts_share_what_was_foreseen(problem: Problem, length: int, penalty: float) -> None:
    length = min(length, problem.length)
    uncertainty = problem.uncertainty
    assert uncertainty is not None
    controller = ScenarioMpc(uncertainty.forecast_THJ.shape[1], 2)
    whole = problem.foreseen(controller.outlooks(problem))
    part = problem.part(length, penalty)
    alone = Problem(
        problem.budget,
        penalty,
        problem.duration_THJC[:length],
        problem.actual_TJC[:length],
        problem.middle_JC,
        problem.limits,
        uncertainty.part(length),
    )
    assert (controller.run(part).unit_TJ == controller.run(alone).unit_TJ).all()
    assert part.foreseen(Outlooks(uncertainty.forecast_THJ.shape[1], 2)).unit_TQJ.base is whole.unit_TQJ.base
