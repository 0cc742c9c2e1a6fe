"""The published controllers: when to divide the budget anew, and for how many supersteps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pilotage.gang.dividing import even_units, exact_window
from pilotage.gang.problem import Problem
from pilotage.kernels.gang_control import Course, Divided, Rule, follow_divisions, run_dynamic, run_static
from pilotage.model.errors import InputError
from pilotage.model.workload import IntArray

LP: Final = 1.02  # growth of the cost of a window per step: later steps are forecast worse
MOST_SHARE: Final = 8_000  # milli CPU that the static division gives one task
_STARTING_SECONDS: Final = 0.0


class Controller(Protocol):
    """Decides at each superstep from what is forecast there."""

    @property
    def name(self) -> str: ...

    def run(self, problem: Problem) -> Course: ...


def new_course(problem: Problem) -> Course:
    T, J = problem.length, problem.tasks
    return Course(np.zeros((T, J), np.int64), np.zeros(T, np.bool_), np.full(T, _STARTING_SECONDS))


@dataclass(frozen=True)
class EqualSplit:
    """The same share for every task, for ever; units that are left go to the first tasks."""

    name: str = "equal-split"

    def run(self, problem: Problem) -> Course:
        return _constant(problem, even_units(problem.room))


@dataclass(frozen=True)
class Exppo:
    """One division for the middle size: unit by unit to the slowest task below the largest share."""

    name: str = "exppo"

    def run(self, problem: Problem) -> Course:
        room = problem.room
        most_J = np.minimum((MOST_SHARE - problem.budget.least) // problem.budget.step, room.most_J)
        unit_J, used_N = np.zeros(problem.tasks, np.int64), np.zeros(len(room.most_N), np.int64)
        tasks = np.arange(problem.tasks)
        for _ in range(problem.units):
            open_J = (unit_J < most_J) & (used_N < room.most_N)[room.node_J]
            if not open_J.any():
                break  # what is left has no use under this rule
            slowest = np.argmax(np.where(open_J, problem.middle_JC[tasks, unit_J], -np.inf))
            unit_J[slowest] += 1
            used_N[room.node_J[slowest]] += 1
        return _constant(problem, unit_J)


def _constant(problem: Problem, unit_J: IntArray) -> Course:
    course = new_course(problem)
    course.unit_TJ[:] = unit_J
    course.divided_T[0] = True
    follow_divisions(problem.actual_TJC, course)
    return course


@dataclass(frozen=True)
class StaticMpc:
    """A new division every `window` steps, for that many."""

    window: int

    @property
    def name(self) -> str:
        return f"static-mpc({self.window})"

    def run(self, problem: Problem) -> Course:
        known, course = _within(problem, self.window, self.name), new_course(problem)
        run_static(known, problem.actual_TJC, self.window, course)
        return course


@dataclass(frozen=True)
class StaticExact:
    """The same with exact divisions: none has a shorter sum of forecast times over the window, to a tolerance."""

    window: int

    @property
    def name(self) -> str:
        return f"static-exact({self.window})"

    def run(self, problem: Problem) -> Course:
        check_window(problem, self.window, self.name)
        course = new_course(problem)
        for t in range(0, problem.length, self.window):
            found = exact_window(problem.duration_THJC[t, : self.window], problem.room)
            course.unit_TJ[t : t + self.window] = found.unit_J
            course.divided_T[t] = True
        follow_divisions(problem.actual_TJC, course)
        return course


@dataclass(frozen=True)
class DynamicMpc:
    """Plans windows at each step, with the choice to keep the division, and commits to the first step."""

    window: int
    growth: float = LP

    @property
    def name(self) -> str:
        return f"dynamic-mpc({self.window})" + (f" lp {self.growth:g}" if self.growth != LP else "")

    def run(self, problem: Problem) -> Course:
        return _dynamic(problem, self.window, self.growth, self.name, may_keep=True)


@dataclass(frozen=True)
class DynamicWindow:
    """Plans windows and carries the first one through."""

    window: int
    growth: float = LP

    @property
    def name(self) -> str:
        return f"dynamic-window({self.window})"

    def run(self, problem: Problem) -> Course:
        return _dynamic(problem, self.window, self.growth, self.name, may_keep=False)


def _dynamic(problem: Problem, window: int, growth: float, name: str, *, may_keep: bool) -> Course:
    known, course = _within(problem, window, name), new_course(problem)
    cost_H, width_H = np.zeros(window + 1), np.zeros(window, np.int64)
    rule = Rule(window, growth, problem.penalty, may_keep)
    run_dynamic(known, problem.actual_TJC, rule, cost_H, width_H, course)
    return course


def check_window(problem: Problem, window: int, name: str) -> None:
    if not 1 <= window <= problem.horizon:
        raise InputError(
            f"{name} looks {window} steps ahead, forecasts are for {problem.horizon}",
            expected=f"a window from 1 to {problem.horizon}",
        )


def _within(problem: Problem, window: int, name: str) -> Divided:
    check_window(problem, window, name)
    return problem.greedy
