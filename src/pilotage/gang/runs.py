"""One controller over one stretch of supersteps, in figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from pilotage.gang.controllers import Controller
from pilotage.gang.problem import Problem
from pilotage.kernels.gang_control import Course


@dataclass(frozen=True)
class GangRun:
    """What a strategy comes to; `seconds` is what the computation took, all others are of the job."""

    strategy: str
    forecast: str
    first: int
    penalty: float
    course: Course = field(repr=False)
    seconds: float
    seed: int | None = None  # where chance has a part in it

    @property
    def length(self) -> int:
        return len(self.course.seconds_T)

    @property
    def rows(self) -> str:
        return f"{self.first}-{self.first + self.length - 1}"

    @property
    def bare(self) -> float:
        """Without penalties."""
        return float(self.course.seconds_T.sum())

    @property
    def redivisions(self) -> int:
        """The first division is none."""
        return int(self.course.divided_T[1:].sum())

    @property
    def total(self) -> float:
        return self.bare + self.penalty * self.redivisions

    def figures(self) -> dict[str, object]:
        """What is stored: no times of the computation, so the same bytes everywhere."""
        return {
            "strategy": self.strategy,
            "forecast": self.forecast,
            "rows": self.rows,
            "penalty": self.penalty,
            "seed": self.seed,
            "bare": round(self.bare, 6),
            "redivisions": self.redivisions,
            "total": round(self.total, 6),
        }


def carry_out(
    controller: Controller, problem: Problem, forecast: str, first: int = 0, seed: int | None = None
) -> GangRun:
    """Divisions that several runs share are found, and counted, in the first run that needs them."""
    began = perf_counter()
    course = controller.run(problem)
    return GangRun(controller.name, forecast, first, problem.penalty, course, perf_counter() - began, seed)
