"""What to do now: the division our controller would make at a superstep, beside the exact one for the next steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.gang.controllers import check_window
from pilotage.gang.dividing import WindowDivision, exact_division, exact_window
from pilotage.gang.job import Job, Outlook
from pilotage.gang.problem import Problem
from pilotage.gang.scenario_mpc import Planner, ScenarioMpc
from pilotage.model.errors import InputError
from pilotage.model.workload import IntArray


@dataclass(frozen=True)
class NextDivision:
    """Milli CPU and forecast sizes by task; seconds as forecast, of the next superstep.

    The exact division is for `window` supersteps together: their seconds, and by which part at the most another one
    would be faster.
    """

    superstep: int
    keep: bool
    shares: dict[str, int]
    sizes: dict[str, float]
    seconds: float
    exact_shares: dict[str, int]
    exact_seconds: float
    window: int = 1
    exact_gap: float = 0.0


def plan_next(
    job: Job, outlook: Outlook, superstep: int, current: Sequence[int] | None, seed: int, window: int = 1
) -> NextDivision:
    """`current` are the shares in force, in the order of the tasks; without them a division is due."""
    if not 0 <= superstep < job.rows:
        raise InputError(f"{superstep}", field="--superstep", expected=f"0 to {job.rows - 1}")
    problem = job.problem(outlook, superstep, job.rows - superstep)
    current_J = None if current is None else _units(job, current)
    chosen_J = Planner(ScenarioMpc(seed=seed), problem).plan(0, current_J)
    if chosen_J is not None:
        unit_J = chosen_J
    elif current_J is not None:
        unit_J = current_J
    now_JC = problem.duration_THJC[0, 0]
    exact = _exact(job, problem, window)
    size_J = outlook.sizes.forecast_THJ[outlook.before + superstep, 0]
    return NextDivision(
        superstep,
        chosen_J is None,
        dict(zip(job.names, problem.shares(unit_J).tolist(), strict=True)),
        dict(zip(job.names, np.round(size_J, 3).tolist(), strict=True)),
        float(now_JC[np.arange(len(unit_J)), unit_J].max()),
        dict(zip(job.names, problem.shares(exact.unit_J).tolist(), strict=True)),
        exact.seconds,
        window,
        exact.gap,
    )


def _exact(job: Job, problem: Problem, window: int) -> WindowDivision:
    job.horizon_place.located(lambda: check_window(problem, window, "--window"))
    if window == 1:  # bisection leaves no gap
        unit_J, seconds = exact_division(problem.duration_THJC[0, 0], problem.room)
        return WindowDivision(unit_J, seconds, seconds)
    return exact_window(problem.duration_THJC[0, :window], problem.room)


def _units(job: Job, shares: Sequence[int]) -> IntArray:
    """Shares that are in force, as units."""
    budget = job.budget
    if len(shares) != len(job.tasks):
        raise InputError(f"{len(shares)} shares", field="--current", expected=f"one for each of {len(job.tasks)} tasks")
    if min(shares) < budget.least or sum(shares) > budget.total:
        raise InputError(
            f"{','.join(map(str, shares))}",
            field="--current",
            expected=f"at least {budget.least} each, {budget.total} in all",
        )
    return (np.array(shares, np.int64) - budget.least) // budget.step
