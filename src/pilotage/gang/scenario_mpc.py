"""Our controller: plans windows over possible futures instead of one.

At each superstep the forecasts are varied by what they missed at moments of the past, all tasks and steps of one moment
together, so that errors that come together stay together. Divisions are made for all these futures at once, and windows
are weighed by their mean time and what a new division costs. A window that begins later is weighed by what will be
known then: its steps are varied by misses of forecasts that are as fresh as they will be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.gang.controllers import new_course
from pilotage.gang.foresight import FUTURES, SPREAD, SWAPS, Foresight, Outlooks
from pilotage.gang.problem import Problem
from pilotage.kernels.gang_control import Course
from pilotage.kernels.gang_division import window_index
from pilotage.kernels.gang_futures import Plan, decide_foreseen, run_foreseen
from pilotage.model.workload import IntArray

PRIOR_DIVISIONS = 2  # measured ones that the penalty of the job counts as


@dataclass(frozen=True)
class ScenarioMpc:
    """Settings were chosen on training rows; see docs/gang.md."""

    window: int = 10
    """Supersteps looked ahead."""
    futures: int = FUTURES
    spread: float = SPREAD
    swaps: int = SWAPS
    seed: int = 0

    @property
    def name(self) -> str:
        return "pilotage" if self.window == ScenarioMpc.window else f"pilotage({self.window})"

    def outlooks(self, problem: Problem) -> Outlooks:
        ahead = problem.known_misses.forecast_THJ.shape[1]
        return Outlooks(min(self.window, ahead), self.futures, self.spread, self.swaps, self.seed)

    def run(self, problem: Problem) -> Course:
        outlooks, course = self.outlooks(problem), new_course(problem)
        known = problem.foreseen(outlooks)
        duration_JCG = problem.known_misses.grid.duration_JCG
        run_foreseen(
            duration_JCG, known, problem.actual_TJC, outlooks.horizon, plan_for(outlooks.horizon, problem), course
        )
        return course


def plan_for(horizon: int, problem: Problem) -> Plan:
    return Plan(horizon, problem.penalty, np.zeros(horizon + 1), np.zeros(horizon, np.int64))


class Planner:
    """Decides superstep by superstep, for a job that runs."""

    def __init__(self, settings: ScenarioMpc, problem: Problem) -> None:
        outlooks = settings.outlooks(problem)
        self.problem, self.horizon = problem, outlooks.horizon
        self._foresight = Foresight(outlooks, problem.known_misses, problem.room)
        self._duration_JCG = problem.known_misses.grid.duration_JCG
        self._plan = plan_for(self.horizon, problem)
        self._paid: list[float] = []

    @property
    def penalty(self) -> float:
        """What a new division is taken to cost: that of the job at first, then more and more what was measured."""
        return (PRIOR_DIVISIONS * self.problem.penalty + sum(self._paid)) / (PRIOR_DIVISIONS + len(self._paid))

    def paid(self, seconds: float) -> None:
        """What a new division has cost in fact."""
        self._paid.append(seconds)
        self._plan = self._plan._replace(penalty=self.penalty)

    def plan(self, t: int, current_J: IntArray | None) -> IntArray | None:
        """Units of each task from superstep t on; None = as they are."""
        foresight = self._foresight
        foresight.look(t)
        width = decide_foreseen(
            self._duration_JCG,
            foresight.place_JX,
            foresight.estimate_Q,
            foresight.unit_QJ[0] if current_J is None else current_J,
            current_J is not None,
            self.problem.length - t,
            self.horizon,
            self._plan,
        )
        if width == 0:
            return None
        chosen_J: IntArray = foresight.unit_QJ[window_index(0, width, self.horizon)].copy()
        return chosen_J
