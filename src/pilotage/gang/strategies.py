"""Controllers by name, and sweeps over what a job is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.controllers import Controller, DynamicMpc, DynamicWindow, EqualSplit, Exppo, StaticExact, StaticMpc
from pilotage.gang.dividing import bound
from pilotage.gang.job import Job, Outlook
from pilotage.gang.problem import Problem
from pilotage.gang.runs import GangRun, carry_out
from pilotage.gang.scenario_mpc import ScenarioMpc
from pilotage.gang.sizes import Sizes
from pilotage.gang.window_policy import LearnedWindows
from pilotage.model.errors import InputError, UnknownNameError

DEFAULT: Final = "equal-split,exppo,static-mpc(3),dynamic-window(3),dynamic-mpc(3),dynamic-mpc(10),learned,pilotage"
_WINDOWED: Final[dict[str, Callable[[int], Controller]]] = {
    "static-mpc": StaticMpc,
    "static-exact": StaticExact,
    "dynamic-window": DynamicWindow,
    "dynamic-mpc": DynamicMpc,
    "pilotage": ScenarioMpc,
}
_PLAIN: Final[dict[str, Callable[[], Controller]]] = {
    "equal-split": EqualSplit,
    "exppo": Exppo,
    "learned": LearnedWindows,
    "pilotage": ScenarioMpc,
}
NAMES: Final = (
    *("equal-split", "exppo", "static-mpc(W)", "static-exact(W)", "dynamic-window(W)", "dynamic-mpc(W)", "pilotage"),
    *("learned", "learned:DIR"),
)
Sweep = dict[float, dict[str, float]]  # mean total by value and strategy
SWEEPS: Final = ("window", "penalty", "length", "tasks")


def controller_by_name(text: str) -> Controller:
    if text.startswith("learned:"):
        found = LearnedWindows(Path(text.partition(":")[2]))
        found.network()  # a checkpoint that cannot be used is refused before anything is computed
        return found
    match = re.fullmatch(r"([a-z-]+)(?:\((\d{1,3})\))?", text)
    name, window = (match[1], match[2]) if match else (text, None)
    if match is None or name not in {**_WINDOWED, **_PLAIN}:
        raise UnknownNameError("strategy", text, NAMES, field="--strategies")
    if window is None:
        if name not in _PLAIN:
            raise InputError(f"{text!r} needs a window", field="--strategies", expected=f"such as {name}(3)")
        return _PLAIN[name]()
    if name not in _WINDOWED:
        raise InputError(f"{name!r} has no window", field="--strategies", expected=name)
    return _WINDOWED[name](int(window))


def parse_strategies(text: str) -> tuple[Controller, ...]:
    found = tuple(controller_by_name(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise InputError(f"{text!r} names none", field="--strategies", expected="such as exppo,dynamic-mpc(10)")
    return found


def parse_sweep(text: str) -> tuple[str, tuple[float, ...]]:
    """A sweep such as penalty=5,15,25 or window=1-10."""
    name, _, values = text.partition("=")
    if name not in SWEEPS:
        raise UnknownNameError("sweep", name, SWEEPS, field="--sweep")
    found: list[float] = []
    for part in values.split(","):
        span = re.fullmatch(r"(\d{1,5})-(\d{1,5})", part.strip())
        try:
            found += range(int(span[1]), int(span[2]) + 1) if span else [float(part)]
        except ValueError:
            raise InputError(f"cannot read {part!r}", field="--sweep", expected=f"{name}=1,5 or {name}=1-5") from None
    whole = name != "penalty"
    low, high = (1, 1e9) if whole else (0, 1e9)  # nan is in no range
    if not found or any(not low <= value <= high or (whole and value != int(value)) for value in found):
        raise InputError(f"{values!r}", field="--sweep", expected=f"{'whole numbers from 1' if whole else 'seconds'}")
    return name, tuple(found)


def parse_supersteps(text: str | None, rows: int) -> tuple[int, int]:
    """First superstep and number of them, of text such as 0-399."""
    if text is None:
        return 0, rows
    match = re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if match is None or not int(match[1]) <= int(match[2]) < rows:
        raise InputError(f"{text!r}", field="--supersteps", expected=f"FROM-TO within 0-{rows - 1}")
    return int(match[1]), int(match[2]) - int(match[1]) + 1


@dataclass(frozen=True)
class Comparison:
    """One job, some controllers, seeds for those with chance in them."""

    job: Job
    controllers: tuple[Controller, ...]
    seeds: tuple[int, ...] = (0,)
    first: int = 0
    length: int | None = None

    def problem(self, outlook: Outlook, *, perfect: bool = False) -> Problem:
        """The supersteps as tables; parts of it, and other penalties, share what is found for it."""
        sizes = outlook.sizes.perfect() if perfect else outlook.sizes
        widest = max((getattr(controller, "window", 1) for controller in self.controllers), default=1)
        seen = Outlook(sizes, outlook.before)
        return self.job.problem(seen, self.first, self._length, min(widest, self.job.horizon))

    def runs(self, outlook: Outlook, *, perfect: bool = False) -> list[GangRun]:
        return self.runs_on(self.problem(outlook, perfect=perfect), "perfect" if perfect else self.job.forecaster)

    def runs_on(self, problem: Problem, forecast: str) -> list[GangRun]:
        found = []
        for controller in self.controllers:
            chance = isinstance(controller, ScenarioMpc | LearnedWindows)
            for seed in self.seeds if chance else (None,):
                own = controller if seed is None else replace(controller, seed=seed)  # type: ignore[type-var]
                run = partial(carry_out, own, problem, forecast, self.first, seed)
                found.append(self.job.horizon_place.located(run))  # a window that is longer than the forecasts
        return found

    @property
    def _length(self) -> int:
        return self.job.rows - self.first if self.length is None else self.length

    def bound(self, outlook: Outlook) -> float:
        """Seconds of all supersteps under exact divisions with perfect knowledge, without any penalty."""
        problem = self.job.problem(outlook, self.first, self._length, 1)
        return float(bound(problem.actual_TJC, self.job.room()).sum())

    def sweep(self, name: str, values: Sequence[float], outlook: Outlook, whole: Problem) -> Sweep:
        """Mean totals by value and strategy; a sweep over windows is one of kinds of strategies.

        `whole` is the problem of this comparison.
        """
        found: Sweep = {}
        for value in values:
            if name == "penalty":
                runs = self.runs_on(whole.part(whole.length, value), self.job.forecaster)
            elif name == "length" and value <= whole.length:
                runs = self.runs_on(whole.part(int(value), whole.penalty), self.job.forecaster)
            else:
                changed, seen = self._changed(name, value, outlook)
                runs = changed.runs(seen)
            totals = mean_totals(runs)
            found[value] = {swept_kind(own): total for own, total in totals.items()} if name == "window" else totals
        return found

    def _changed(self, name: str, value: float, outlook: Outlook) -> tuple[Comparison, Outlook]:
        """The comparison with one thing changed that makes it another problem."""
        if name == "length":
            return replace(self, length=int(value)), outlook
        if name == "window":
            kinds = dict.fromkeys(swept_kind(c.name).removesuffix("(W)") for c in self.controllers)
            windowed = tuple(_WINDOWED[kind](int(value)) for kind in kinds if kind in _WINDOWED)
            return replace(self, controllers=windowed), outlook
        count = int(value)
        if count > len(self.job.tasks):
            raise InputError(f"{count} tasks", field="--sweep", expected=f"at most {len(self.job.tasks)}")
        budget = self.job.budget
        share = budget.total * count // len(self.job.tasks)
        share -= (share - count * budget.least) % budget.step  # what divides evenly
        job = replace(self.job, tasks=self.job.tasks[:count], budget=replace(budget, total=share))
        sizes = Sizes(outlook.sizes.forecast_THJ[:, :, :count], outlook.sizes.actual_THJ[:, :, :count])
        return replace(self, job=job), Outlook(sizes, outlook.before)


def swept_kind(name: str) -> str:
    """What strategies that differ in their window alone are called together."""
    return re.sub(r"\(.*", "", name) + "(W)"


def mean_totals(runs: Sequence[GangRun]) -> dict[str, float]:
    """Mean total over seeds, by strategy, in the order of the runs."""
    names = dict.fromkeys(run.strategy for run in runs)
    return {name: float(np.mean([run.total for run in runs if run.strategy == name])) for name in names}
