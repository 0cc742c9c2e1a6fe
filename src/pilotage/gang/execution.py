"""A real run: supersteps one after the other, with workers that may fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pilotage.gang.crew import Workforce
from pilotage.gang.meeting import STOP, Meeting, MeetingError, Order, Report
from pilotage.gang.record import Record, Superstep
from pilotage.model.workload import FloatArray, IntArray

LOOK_SECONDS = 0.2  # between looks at workers that say nothing

Plan = Callable[[int, IntArray | None], IntArray | None]  # superstep, units before -> units, None = keep


@dataclass(frozen=True)
class Limits:
    """When a worker counts as failed, and when the job does."""

    enter_seconds: float = 60.0
    """For all workers to start and to enter."""
    superstep_seconds: float = 600.0
    """For the work of one superstep; a worker that takes longer hangs."""
    attempts: int = 5
    """Of one superstep, before the job is given up."""


@dataclass
class _Attempts:
    """One superstep with its failures."""

    reports: dict[str, Report] = field(default_factory=dict)
    seconds: float = 0.0  # from the first opening, or the first failure to gather, to the last report
    events: list[str] = field(default_factory=list)

    @property
    def lost_seconds(self) -> float:
        """More than the longest work itself, where something failed."""
        return self.seconds - max(report.seconds for report in self.reports.values()) if self.events else 0.0


class Execution:
    """Drives meeting and crew; what is done is in the record."""

    def __init__(
        self, tasks: tuple[str, ...], meeting: Meeting, crew: Workforce, record: Record, limits: Limits
    ) -> None:
        self.tasks, self.meeting, self.crew, self.record, self.limits = tasks, meeting, crew, record, limits

    def run(
        self,
        plan: Plan,
        size_TJ: FloatArray,
        predict: Callable[[int, IntArray], float],
        shares: Shares,
        paid: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """All supersteps that are not in the record yet. `paid` is told what each new division took."""
        for task in self.tasks:
            self.crew.start(task)
        unit_J: IntArray | None = None
        if self.record.done:
            for step in self.record.done[1:]:
                if step.divided:
                    paid(step.resize_seconds)
            last = self.record.done[-1].shares
            unit_J = shares.units([last[task] for task in self.tasks])
            self.crew.resize(last)
        interrupted = self.record.interrupted_seconds
        for t in range(len(self.record.done), len(size_TJ)):
            planned_J = plan(t, unit_J)
            began = time.monotonic()
            if planned_J is not None:
                unit_J = planned_J
                self.crew.resize(dict(zip(self.tasks, shares.milli(unit_J), strict=True)))
            resized = time.monotonic() - began
            if planned_J is not None and t > 0:
                paid(resized)
            if unit_J is None:
                raise MeetingError("no division to begin with")
            sizes = dict(zip(self.tasks, size_TJ[t].tolist(), strict=True))
            found = self._stating_loss(t, sizes, len(size_TJ))
            self.record.add(
                Superstep(
                    superstep=t,
                    sizes=sizes,
                    shares=dict(zip(self.tasks, shares.milli(unit_J), strict=True)),
                    divided=planned_J is not None,
                    resize_seconds=resized,
                    predicted=predict(t, unit_J),
                    seconds=found.seconds,
                    task_seconds={task: report.seconds for task, report in found.reports.items()},
                    lost_seconds=found.lost_seconds,
                    events=(*_started_again(t, interrupted), *found.events),
                    interrupted_seconds=interrupted or 0.0,
                )
            )
            interrupted = None

    def stop(self) -> None:
        for task in self.tasks:
            with suppress(MeetingError):  # who cannot be told is ended by the crew
                self.meeting.order(task, STOP)

    def _stating_loss(self, t: int, sizes: dict[str, float], length: int) -> _Attempts:
        """A superstep; where the job has to be given up, what that costs is part of the reason."""
        began = time.monotonic()
        try:
            return self._superstep(t, sizes)
        except MeetingError as error:
            spent = time.monotonic() - began
            words = f"superstep {t} is lost, {spent:.1f} s of it; {t} of {length} are recorded"
            raise MeetingError(f"{error}; {words}") from error

    def _superstep(self, t: int, sizes: dict[str, float]) -> _Attempts:
        found = _Attempts()
        began = time.monotonic()
        for attempt in range(self.limits.attempts):
            owing = [task for task in self.tasks if task not in found.reports]
            if not owing:
                break
            orders = {task: Order(t, attempt, sizes[task]) for task in owing}
            key = orders[owing[0]].key
            self._gather(orders, key, found)
            if attempt == 0 and not found.events:  # else to gather took longer because of failures
                began = time.monotonic()
            self.meeting.open(key)
            self._await(partial(self._left, key), owing, self.limits.superstep_seconds)
            left = self.meeting.left(key)
            self.meeting.forget(key)  # before anybody is started again, who would take the old order
            for task in owing:
                if task not in left:
                    state = "hangs" if self.crew.alive(task) else "died"
                    found.events.append(f"{task}: the worker {state} at work, started again")
                    self.crew.restart(task)
                elif left[task].code:
                    found.events.append(f"{task}: the work ended with code {left[task].code}, done again")
                else:
                    found.reports[task] = left[task]
        owing = [task for task in self.tasks if task not in found.reports]
        if owing:
            said = "; ".join(found.events[-len(owing) :])
            raise MeetingError(f"superstep {t} failed {self.limits.attempts} times for {', '.join(owing)}: {said}")
        found.seconds = time.monotonic() - began
        return found

    def _gather(self, orders: dict[str, Order], key: str, found: _Attempts) -> None:
        """Orders given and all workers there; those that die or do not come are started again."""
        for task, order in orders.items():
            self.meeting.order(task, order)
        for _ in range(self.limits.attempts):
            missing = self._await(partial(self.meeting.entered, key), list(orders), self.limits.enter_seconds)
            if not missing:
                return
            for task in missing:
                state = "does not come" if self.crew.alive(task) else "died"
                found.events.append(f"{task}: the worker {state}, started again")
                self.crew.restart(task)
                self.meeting.order(task, orders[task])
        raise MeetingError(f"superstep {key} could not begin: {'; '.join(found.events)}")

    def _left(self, key: str) -> set[str]:
        return set(self.meeting.left(key))

    def _await(self, there: Callable[[], set[str]], wanted: list[str], seconds: float) -> list[str]:
        """Until all that live are there, or time is up; those that are missing."""
        until = time.monotonic() + seconds
        while True:
            alive = {task for task in wanted if self.crew.alive(task)}
            present = there()  # after the look at who lives: the last words of a worker count
            missing = [task for task in wanted if task not in present]
            if not alive & set(missing) or time.monotonic() > until:
                return missing
            self.meeting.wait(LOOK_SECONDS)


def _started_again(t: int, interrupted: float | None) -> list[str]:
    """What is said of a coordinator that goes on where another one ended, killed or asked to."""
    if interrupted is None:
        return []
    last = f"superstep {t - 1} was recorded" if t else "the run had begun"
    return [f"the coordinator was started again {interrupted:.1f} s after {last}; work since then is done again"]


@dataclass(frozen=True)
class Shares:
    """Units of a budget as milli CPU and back."""

    least: int
    step: int

    def milli(self, unit_J: IntArray) -> list[int]:
        return [int(self.least + self.step * unit) for unit in unit_J]

    def units(self, milli: list[int]) -> IntArray:
        return np.array([(share - self.least) // self.step for share in milli], np.int64)
