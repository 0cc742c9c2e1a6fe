"""Job files: tasks, what drives their sizes, the budget, and what a new division costs.

::

    apiVersion: pilotage/v1
    kind: GangJob
    name: nightly
    budget: {total: "24", least: "1", step: 100m}     # CPU
    penalty: 15                     # seconds that a new division costs
    sizes: {smallest: 10, largest: 50}
    profile: profile.csv            # measured durations
    durations: spline               # or monotone, or best: what predicts left-out measurements better
    rows: 200                       # supersteps: so many values, the last ones but horizon - 1
    horizon: 20                     # supersteps to forecast
    forecaster: combined
    nodes: {large: "16", small: "8"}                  # CPU that tasks may have there
    tasks:
      - name: atomic
        series: series/one.csv
        most: "8"                   # CPU at the most
        node: large                 # where it runs
        command: [stress-ng, --atomic, "1", --atomic-ops, "{work}"]
        workPerSize: 2000           # {work} is this times the size

Files are relative to the job file. The range of the values that are forecast becomes the range of sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.dividing import TaskLimit, room_of
from pilotage.gang.durations import DurationModel, SplineDurations
from pilotage.gang.forecast_trial import FORECASTERS, Split, actual_values, forecaster_by_name
from pilotage.gang.monotone_durations import Choice, MonotoneDurations, choose_durations
from pilotage.gang.problem import Budget, Problem
from pilotage.gang.profile import Profile, read_profile
from pilotage.gang.series import Series, read_series
from pilotage.gang.sizes import Sizes
from pilotage.gang.uncertainty import Uncertainty
from pilotage.kernels.gang_division import Room
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray
from pilotage.workloads.fields import Field
from pilotage.workloads.yaml_documents import only_document

API_VERSION: Final = "pilotage/v1"
KIND: Final = "GangJob"
FIELDS: Final = (
    *("apiVersion", "kind", "name", "budget", "penalty", "sizes", "profile"),
    *("durations", "rows", "horizon", "forecaster", "nodes", "tasks"),
)
DURATIONS: Final = ("spline", "monotone", "best")
TASK_FIELDS: Final = ("name", "series", "most", "node", "command", "workPerSize")
MAX_BYTES: Final = 1024 * 1024
MOST_TASKS: Final = 1000
EARLIER: Final = 300  # rows before the first superstep, from which errors of forecasts are known
_NOTHING_MEASURED: Final = Profile((), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?")


@dataclass(frozen=True)
class Task:
    """One task. Without a command it can be planned, not run."""

    name: str
    series: Series
    most: int | None = None  # milli CPU
    command: tuple[str, ...] = ()
    work_per_size: float = 1.0
    node: str = ""  # where it runs; empty: anywhere

    def command_for(self, size: float) -> list[str]:
        return filled_in(self.command, self.work_per_size, size)


def filled_in(command: Sequence[str], work_per_size: float, size: float) -> list[str]:
    """The command of a superstep: {size} and {work} filled in."""
    work = str(max(1, round(work_per_size * size)))
    return [part.replace("{work}", work).replace("{size}", f"{size:g}") for part in command]


def command_from(text: str) -> Callable[[float], list[str]]:
    """The command of a worker that has no job file, from the text its coordinator gave it."""
    try:
        content = json.loads(text[:MAX_BYTES])
        command, per_size = content["command"], float(content["workPerSize"])
        if not command or not all(isinstance(part, str) for part in command):
            raise ValueError("no command")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            "is no command of a task", field="PILOTAGE_GANG_COMMAND", expected='{"command": [..], "workPerSize": 1}'
        ) from error
    return lambda size: filled_in(command, per_size, size)


@dataclass(frozen=True)
class Job:
    """A job as its file says."""

    name: str
    budget: Budget
    penalty: float
    smallest: float
    largest: float
    profile: Profile
    rows: int
    horizon: int
    forecaster: str
    tasks: tuple[Task, ...]
    place: Field = field(compare=False)
    durations: str = "spline"
    nodes: tuple[tuple[str, int], ...] = ()  # milli CPU that the tasks of a node may have together
    horizon_at: Field | None = field(default=None, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def horizon_place(self) -> Field:
        """Where it says how far forecasts reach."""
        return self.place if self.horizon_at is None else self.horizon_at

    def fingerprint(self) -> str:
        """Of all that it says, files that it names included: a run of the one is not gone on with by another."""
        known = self.profile
        plain = [
            *(self.name, astuple(self.budget), self.penalty, self.smallest, self.largest, self.rows, self.horizon),
            *(self.forecaster, self.durations, self.nodes, known.tasks),
            *((task.name, task.most, task.command, task.work_per_size, task.node) for task in self.tasks),
        ]
        digest = hashlib.sha256(repr(plain).encode())
        arrays = [known.task_M, known.size_M, known.share_M, known.seconds_M]
        for array in (*arrays, *(part for task in self.tasks for part in (task.series.time_N, task.series.value_N))):
            digest.update(array.tobytes())
        return digest.hexdigest()[:32]

    def model(self) -> DurationModel:
        models: dict[str, Callable[[], DurationModel]] = {
            "spline": lambda: SplineDurations.of(self.profile, self.names),
            "monotone": lambda: MonotoneDurations.of(self.profile, self.names),
            "best": lambda: self.choice.model,
        }
        return self.place.located(models[self.durations])

    @cached_property
    def choice(self) -> Choice:
        """Which model predicts left-out lines of the profile better, and how well both do."""
        return self.place.located(lambda: choose_durations(self.profile, self.names))

    def outlook(self, earlier: int = EARLIER) -> Outlook:
        """Forecasts and sizes of all rows, and of at most so many right before them."""
        split = Split(self.rows, self.horizon)
        forecasts, actuals, before = [], [], earlier
        for task in self.tasks:
            before = min(before, split.first(task.series) - 1)
        for task in self.tasks:
            first = split.first(task.series)
            rolled_TH = forecaster_by_name(self.forecaster).roll(
                task.series, first - before, self.rows + before, self.horizon
            )
            actual_TH = actual_values(task.series, first - before, self.rows + before, self.horizon)
            known_T = actual_TH[before:, 0]
            scale = (self.largest - self.smallest) / (float(known_T.max() - known_T.min()) or 1.0)
            forecasts.append(self._clipped(self.smallest + scale * (rolled_TH - known_T.min())))
            actuals.append(self.smallest + scale * (actual_TH - known_T.min()))
        sizes = Sizes(np.stack(forecasts, axis=2), np.stack(actuals, axis=2))
        return Outlook(sizes, before)

    def _clipped(self, size_TH: FloatArray) -> FloatArray:
        return np.clip(size_TH, self.smallest, self.largest)

    def problem(self, outlook: Outlook, first: int, length: int, horizon: int | None = None) -> Problem:
        """Supersteps first .. first + length - 1 as tables, with forecasts `horizon` steps ahead, by default all."""
        model = self.model()
        rows = outlook.sizes.rows(outlook.before + first, length)
        earlier = outlook.sizes.rows(0, outlook.before + first) if outlook.before + first else None
        share_C = self.budget.share_C(len(self.tasks))
        middle = (self.smallest + self.largest) / 2
        uncertainty = Uncertainty.of(model, rows, earlier, share_C, self.smallest, self.largest)
        return Problem.of(
            model,
            rows,
            self.budget,
            self.penalty,
            middle=middle,
            horizon=horizon,
            limits=self.room(),
            uncertainty=uncertainty,
        )

    def room(self) -> Room:
        """What tasks may get, as units."""
        limits = [TaskLimit(task.most, task.node) for task in self.tasks]
        return self.place.located(lambda: room_of(self.budget, limits, dict(self.nodes)))


@dataclass(frozen=True)
class Outlook:
    """Sizes of `before` rows before the first superstep and of all supersteps."""

    sizes: Sizes
    before: int


def read_job(path: Path, *, profiled: bool = True) -> Job:
    """The job of a file. Not `profiled`: it is about to be, what was measured before is left aside."""
    root = Field.of(only_document(path, max_bytes=MAX_BYTES))
    root.get("apiVersion").choice((API_VERSION,))
    root.get("kind").choice((KIND,))
    root.only(*FIELDS)
    tasks = tuple(_task(entry, path.parent) for entry in root.get("tasks").elements())
    place = root.get("tasks")
    if not 1 <= len(tasks) <= MOST_TASKS:
        raise place.error(f"{len(tasks)} tasks", f"1 to {MOST_TASKS}")
    for name in (names := [task.name for task in tasks]):
        if names.count(name) > 1:
            raise place.error(f"{name!r} is given twice", "names that differ")
    name = root.get("name").text(path.stem)
    if not _NAME.fullmatch(name):
        raise root.get("name").error(f"{name[:60]!r} is not a name", "small letters, digits and '-'")
    sizes = root.get("sizes").only("smallest", "largest")
    smallest = sizes.get("smallest").number(10.0, low=0.0)
    profile = root.get("profile")
    job = Job(
        name=name,
        budget=_budget(root.get("budget"), len(tasks)),
        penalty=root.get("penalty").number(15.0, high=1e6),
        smallest=smallest,
        largest=sizes.get("largest").number(50.0, low=smallest + 1e-6),
        profile=read_profile(_named_file(profile, path.parent, "the file of measured durations"))
        if profiled
        else _NOTHING_MEASURED,
        rows=root.get("rows").integer(200, low=1, high=100_000),
        horizon=root.get("horizon").integer(20, low=1, high=200),
        forecaster=root.get("forecaster").choice(tuple(FORECASTERS), "combined", kind="forecaster"),
        tasks=tasks,
        place=place,
        durations=root.get("durations").choice(DURATIONS, "spline", kind="duration model"),
        nodes=tuple((name, _milli(entry)) for name, entry in root.get("nodes").items()),
        horizon_at=root.get("horizon"),
    )
    for task, entry in zip(tasks, place.elements(), strict=True):
        if profiled and task.name not in job.profile.tasks:
            raise entry.get("name").unknown("task of the profile", task.name, job.profile.tasks)
        if task.node and task.node not in (known := dict(job.nodes)):
            raise entry.get("node").unknown("node", task.node, known)
        entry.get("series").located(partial(Split(job.rows, job.horizon).first, task.series))
    job.room()  # a limit below the least share is refused when the file is read
    return job


def _budget(entry: Field, tasks: int) -> Budget:
    entry.only("total", "least", "step")
    usual = Budget()
    found = {}
    for name in ("total", "least", "step"):
        own = entry.get(name)
        found[name] = _milli(own) if own.present else getattr(usual, name)
    budget = Budget(**found)
    entry.located(lambda: budget.units(tasks))
    return budget


def _milli(entry: Field) -> int:
    """A quantity of CPU as milli, above zero."""
    milli = entry.quantity() * 1000
    if milli <= 0 or milli.denominator != 1:
        raise entry.error(f"is {entry.value}", "CPU above 0 in whole milli, such as 500m or 2")
    return int(milli)


def _task(entry: Field, base: Path) -> Task:
    entry.only(*TASK_FIELDS)
    name = entry.get("name").name()
    if not _NAME.fullmatch(name):
        raise entry.get("name").error(f"{name[:60]!r}", "small letters, digits and '-'")
    return Task(
        name,
        read_series(_named_file(entry.get("series"), base, "a CSV file with timestamp,value")),
        _milli(entry.get("most")) if entry.get("most").present else None,
        entry.get("command").string_list(),
        entry.get("workPerSize").number(1.0, low=1e-9),
        entry.get("node").name("") if entry.get("node").present else "",
    )


def _named_file(entry: Field, base: Path, expected: str) -> Path:
    """A file that the job names, which has to be there."""
    path = base / entry.text(expected=expected)
    if not path.exists():
        raise entry.error(f"no such file: {path}", expected)
    return path


def check_commands(job: Job) -> None:
    for task in job.tasks:
        if not task.command:
            raise job.place.error(f"{task.name} has no command", "a command for every task")


def controller_rows(job: Job, first: int, length: int | None) -> int:
    """Number of supersteps from `first` on; all that are left by default."""
    left = job.rows - first
    wanted = left if length is None else length
    if not 1 <= wanted <= left:
        raise InputError(
            f"{wanted} supersteps from {first} on", field="--supersteps", expected=f"1 to {max(left, 1)} of {job.rows}"
        )
    return wanted
