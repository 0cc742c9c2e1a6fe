"""One stretch of supersteps as tables: what every controller is given, and what every divider divides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from pilotage.gang.durations import DurationModel, duration_table
from pilotage.gang.foresight import Outlooks, foresee_all, windows
from pilotage.gang.sizes import Sizes
from pilotage.gang.uncertainty import Uncertainty
from pilotage.kernels.gang_control import Divided
from pilotage.kernels.gang_division import Room, Scratch, divide_all_windows_greedily
from pilotage.kernels.gang_futures import Foreseen
from pilotage.kernels.gang_windows import look_along
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray

DISCOUNT: Final = 0.95  # of the gain of each further step, in the published division


@dataclass(frozen=True)
class Budget:
    """CPU to divide, in milli: every task gets `least`, the rest goes in units of `step`."""

    total: int = 24_000
    least: int = 1_000
    step: int = 100

    def units(self, tasks: int) -> int:
        """Units to give away. One that does not come out even is refused."""
        for name in ("total", "least", "step"):
            if getattr(self, name) <= 0:
                raise InputError(f"is {getattr(self, name)}", field=f"budget.{name}", expected="milli CPU above 0")
        rest = self.total - tasks * self.least
        if rest < 0:
            raise InputError(
                f"{self.total} is less than {tasks} tasks x {self.least}",
                field="budget.total",
                expected="enough for all",
            )
        if rest % self.step:
            raise InputError(
                f"{rest} beyond the least shares is no multiple of {self.step}",
                field="budget.step",
                expected="a divisor",
            )
        return rest // self.step

    def share_C(self, tasks: int) -> FloatArray:
        """The shares a task can have."""
        return self.least + self.step * np.arange(self.units(tasks) + 1, dtype=np.float64)


@dataclass(frozen=True)
class Problem:
    """Forecast and actual durations by superstep, step ahead, task and units of the budget."""

    budget: Budget
    penalty: float  # seconds that a new division costs, but for the first
    duration_THJC: FloatArray
    actual_TJC: FloatArray
    middle_JC: FloatArray  # durations at the middle of the range of sizes
    limits: Room | None = None  # of tasks and nodes; None = the budget alone
    uncertainty: Uncertainty | None = None  # how wrong forecasts have been
    divided: Divided | None = None  # the published divisions, where they are known already
    kept: dict[Outlooks, Foreseen] = field(default_factory=dict, compare=False)  # what was foreseen already
    kept_ahead: dict[Outlooks, FloatArray] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        model: DurationModel,
        sizes: Sizes,
        budget: Budget,
        penalty: float,
        *,
        middle: float,
        horizon: int | None = None,
        limits: Room | None = None,
        uncertainty: Uncertainty | None = None,
    ) -> Problem:
        """`horizon` steps ahead are known to controllers, by default all that are forecast."""
        J = len(model.tasks)
        share_C = budget.share_C(J)
        known_THJ = sizes.forecast_THJ[:, :horizon]
        return cls(
            budget,
            penalty,
            duration_table(model, known_THJ, share_C),
            duration_table(model, sizes.actual_THJ[:, 0], share_C),
            duration_table(model, np.full(J, middle), share_C),
            limits,
            uncertainty,
        )

    def part(self, length: int, penalty: float) -> Problem:
        """The first supersteps at another penalty. Divisions depend on neither: they are found once for all parts."""
        known = self.greedy
        return replace(
            self,
            penalty=penalty,
            duration_THJC=self.duration_THJC[:length],
            actual_TJC=self.actual_TJC[:length],
            uncertainty=None if self.uncertainty is None else self.uncertainty.part(length),
            divided=Divided(known.duration_THJC[:length], known.unit_TQJ[:length], known.estimate_TQ[:length]),
        )

    def foreseen(self, outlooks: Outlooks) -> Foreseen:
        """Divisions for possible futures; found when first asked for, also for problems this one is a part of."""
        uncertainty = self.known_misses
        if outlooks not in self.kept or len(self.kept[outlooks].unit_TQJ) < self.length:
            self.kept[outlooks] = foresee_all(outlooks, uncertainty, self.room)
        place_TJX, unit_TQJ, estimate_TQ = self.kept[outlooks]
        return Foreseen(place_TJX[: self.length], unit_TQJ[: self.length], estimate_TQ[: self.length])

    def ahead(self, outlooks: Outlooks) -> FloatArray:
        """Mean time of each step ahead under the division of each window that begins now (T x A x H)."""
        known = self.foreseen(outlooks)
        if outlooks not in self.kept_ahead or len(self.kept_ahead[outlooks]) < self.length:
            ahead_TAH = np.zeros((self.length, outlooks.horizon, outlooks.horizon))
            look_along(self.known_misses.grid.duration_JCG, known.place_TJX, known.unit_TQJ, ahead_TAH)
            self.kept_ahead[outlooks] = ahead_TAH
        return self.kept_ahead[outlooks][: self.length]

    @property
    def known_misses(self) -> Uncertainty:
        """How wrong forecasts have been; refused where that is not known."""
        if self.uncertainty is None:
            raise InputError("is not known of these forecasts", field="uncertainty", expected="sizes beside forecasts")
        return self.uncertainty

    @property
    def length(self) -> int:
        return len(self.actual_TJC)

    @property
    def tasks(self) -> int:
        return int(self.actual_TJC.shape[1])

    @property
    def horizon(self) -> int:
        return int(self.duration_THJC.shape[1])

    @property
    def units(self) -> int:
        return int(self.actual_TJC.shape[2]) - 1

    @property
    def room(self) -> Room:
        """What a division may give."""
        return open_room(self.units, self.tasks) if self.limits is None else self.limits

    def shares(self, unit_XJ: IntArray) -> IntArray:
        """Units as milli CPU."""
        return self.budget.least + self.budget.step * unit_XJ

    @cached_property
    def greedy(self) -> Divided:
        """The published division of every window; found when first asked for."""
        if self.divided is not None:
            return self.divided
        T, H, J, _ = self.duration_THJC.shape
        unit_TQJ, estimate_TQ = np.zeros((T, windows(H), J), np.int64), np.zeros((T, windows(H)))
        scratch = scratch_for(H, self.room)
        divide_all_windows_greedily(self.duration_THJC, self.room, DISCOUNT, scratch, unit_TQJ, estimate_TQ)
        return Divided(self.duration_THJC, unit_TQJ, estimate_TQ)


def open_room(units: int, tasks: int) -> Room:
    """Nothing but the budget is limited: all tasks are on one node that has it all."""
    return Room(units, np.full(tasks, units), np.zeros(tasks, np.int64), np.full(1, units))


def scratch_for(horizon: int, room: Room) -> Scratch:
    tasks, used_N = len(room.most_J), np.zeros(len(room.most_N), np.int64)
    whole_J, whole_H = np.zeros(tasks, np.int64), np.zeros(horizon, np.int64)
    return Scratch(used_N, np.zeros(tasks), whole_J, whole_J.copy(), whole_H, np.zeros(horizon), np.zeros(horizon))
