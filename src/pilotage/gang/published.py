"""The published experiment: eight tasks, 24 CPU, 400 supersteps; its strategies and the totals that were printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Final

from pilotage.gang.controllers import Controller, DynamicMpc, DynamicWindow, Exppo, StaticMpc
from pilotage.gang.dividing import bound
from pilotage.gang.durations import SplineDurations
from pilotage.gang.job import Job, Task
from pilotage.gang.problem import Budget, Problem
from pilotage.gang.profile import read_profile
from pilotage.gang.runs import GangRun, carry_out
from pilotage.gang.series import read_series
from pilotage.gang.sizes import Sizes, read_published_sizes
from pilotage.gang.strategies import Sweep, swept_kind
from pilotage.model.errors import InputError
from pilotage.workloads.fields import Field

TASKS: Final = ("affinity", "atomic", "bsearch", "cap", "chmod", "memcpy", "vecmath", "zero")
SERIES: Final = (
    "nyc_taxi_1",
    "nyc_taxi_2",
    "nyc_taxi_3",
    "nyc_taxi_4",
    "art_daily_small_noise",
    "ambient_temperature_system_failure_1",
    "ambient_temperature_system_failure_2",
    "ambient_temperature_system_failure_3",
)
SMALLEST, LARGEST = 10.0, 50.0  # sizes of the work
MIDDLE: Final = 30.0
PENALTY: Final = 15.0
LENGTH: Final = 400
HORIZON: Final = 10  # the longest of the published windows
ROWS, STEPS = 1000, 20  # of the stored forecasts
MOST_VALUES: Final = 5000  # of a series
PROFILE_FILE: Final = "workload_profiling.csv"


@dataclass(frozen=True)
class PublishedRow:
    """One run of the table and the total as it was printed; "" where this run alone was not printed."""

    controller: Controller
    forecast: str
    printed: str = ""
    length: int = LENGTH
    penalty: float = PENALTY


def rows() -> Iterator[PublishedRow]:
    yield PublishedRow(DynamicMpc(10), "stored", "49407.93")
    for forecast, totals in _STATIC.items():
        yield PublishedRow(Exppo(), forecast, "65126.48")
        yield from (PublishedRow(StaticMpc(w), forecast, total) for w, total in enumerate(totals, 1))
    for w, total in enumerate(_DYNAMIC_MPC[:-1], 1):
        yield PublishedRow(DynamicMpc(w), "stored", total)
    for w, total in enumerate(_DYNAMIC_WINDOW, 1):
        yield PublishedRow(DynamicWindow(w), "stored", total)
    yield PublishedRow(DynamicMpc(10, 1.0), "perfect", "44677.60")
    yield PublishedRow(DynamicMpc(10), "perfect", "45021.23")
    for penalty, (best, total, of_three) in _PENALTIES.items():
        for w in range(1, HORIZON + 1):
            printed = total if w == best else of_three if w == 3 else ""
            yield PublishedRow(DynamicMpc(w), "stored", printed, penalty=penalty)
    for length, (chosen, total, of_three) in _LENGTHS.items():
        if chosen != 3:
            yield PublishedRow(DynamicMpc(chosen), "stored", total, length=length)
        yield PublishedRow(DynamicMpc(3), "stored", of_three, length=length)


_STATIC: Final = {
    "stored": (
        *("52180.28", "49955.59", "49875.18", "52059.75", "52048.58"),
        *("52777.43", "55909.51", "57346.80", "58759.98"),
    ),
    "perfect": (
        *("47206.58", "45493.69", "45601.13", "45851.03", "46560.09"),
        *("48136.89", "48028.10", "47958.89", "50333.65"),
    ),
}
_DYNAMIC_MPC: Final = ("49796", "49614", "49331", "49497", "49378", "49498", "49461", "49393", "49433", "49408")
_DYNAMIC_WINDOW: Final = ("52180", "50012", "51016", "50421", "50601", "50583", "50867", "50628", "50931", "50881")
# By penalty: the best window, its total, the total of window 3.
_PENALTIES: Final = {
    5.0: (3, "47822", "47822.30"),
    25.0: (4, "50720", "50953.9"),
    45.0: (5, "52557", "53468.9"),
    65.0: (10, "53940", "54911.2"),
    95.0: (7, "55647", "57050.5"),
}
# By length: the window that was chosen, its total, the total of window 3.
_LENGTHS: Final = {
    100: (4, "11926", "11900.2"),
    200: (5, "24301", "24304.6"),
    300: (3, "37279", "37279.3"),
    400: (3, "49331", "49331.3"),
    500: (3, "61810", "61810.6"),
    600: (5, "74829", "74841.1"),
    700: (10, "87805", "87856.0"),
    800: (10, "100441", "100524.4"),
}


def equal_as_printed(total: float, printed: str) -> bool:
    """Whether a total is the printed one, rounded or cut off to as many digits: the published tables do both."""
    digits = len(printed.partition(".")[2])
    factor = 10**digits
    return printed in (f"{total:.{digits}f}", f"{floor(total * factor) / factor:.{digits}f}")


@dataclass(frozen=True)
class PublishedData:
    """Files of the published experiment."""

    model: SplineDurations
    sizes: Sizes

    @classmethod
    def read(cls, directory: Path) -> PublishedData:
        model = SplineDurations.of(read_profile(directory / PROFILE_FILE), TASKS)
        sizes = read_published_sizes(directory, SERIES, SMALLEST, LARGEST)
        file, longest = directory / "forecasts" / f"{SERIES[0]}.csv", max(_LENGTHS)
        if sizes.horizon < HORIZON:
            words = f"{sizes.horizon} steps ahead are fewer than the longest window"
            raise InputError(words, file=file, row=1, expected=f"at least {HORIZON} columns")
        if len(sizes.actual_THJ) < longest:
            rows = len(sizes.actual_THJ)
            raise InputError(f"ends after {rows} rows", file=file, row=rows + 1, expected=f"at least {longest}")
        return cls(model, sizes)

    def problem(self, sizes: Sizes, first: int, length: int, horizon: int = HORIZON) -> Problem:
        return Problem.of(self.model, sizes.rows(first, length), Budget(), PENALTY, middle=MIDDLE, horizon=horizon)


def published_job(directory: Path, forecaster: str) -> Job:
    """The published experiment with forecasts of our own: the series as they are, forecast without future data.

    The map from values to sizes is the published one, a part of the job.
    """
    tasks = []
    for task, series in zip(TASKS, SERIES, strict=True):
        path = directory / "series" / f"{series}.csv"
        tasks.append(Task(task, read_series(path, MOST_VALUES)))
    return Job(
        name="published",
        budget=Budget(),
        penalty=PENALTY,
        smallest=SMALLEST,
        largest=LARGEST,
        profile=read_profile(directory / PROFILE_FILE),
        rows=ROWS,
        horizon=STEPS,
        forecaster=forecaster,
        tasks=tuple(tasks),
        place=Field(None, str(directory), 1, 1),
    )


def published_bound(data: PublishedData) -> float:
    """Seconds of the published supersteps under exact divisions with perfect knowledge, without any penalty."""
    problem = data.problem(data.sizes, 0, LENGTH, 1)
    return float(bound(problem.actual_TJC, problem.room).sum())


def published_sweeps(runs: Sequence[GangRun]) -> dict[str, Sweep]:
    """What the table varies, on stored forecasts: totals by window, by penalty and by length."""
    found: dict[str, Sweep] = {}
    for run in (run for run in runs if run.forecast == "stored" and run.strategy != "exppo"):
        kind, window = swept_kind(run.strategy), run.strategy.partition("(")[2].rstrip(")")
        if (run.penalty, run.length) == (PENALTY, LENGTH):
            found.setdefault("window", {}).setdefault(float(window), {})[kind] = run.total
        if run.length == LENGTH and kind == "dynamic-mpc(W)":
            found.setdefault("penalty", {}).setdefault(run.penalty, {})[run.strategy] = run.total
        if run.penalty == PENALTY and run.strategy == "dynamic-mpc(3)":
            found.setdefault("length", {}).setdefault(float(run.length), {})[run.strategy] = run.total
    return {name: dict(sorted(by_value.items())) for name, by_value in found.items()}


@dataclass(frozen=True)
class ParityRow:
    """A run beside what was printed."""

    run: GangRun
    printed: str

    @property
    def equal(self) -> bool | None:
        return equal_as_printed(self.run.total, self.printed) if self.printed else None


def run_published(
    data: PublishedData, advance: Callable[[int, int], None] = lambda done, total: None
) -> list[ParityRow]:
    """The whole table. Each part of the stored forecasts is a part of one problem, so its divisions are found once."""
    carry_out(DynamicMpc(1), data.problem(data.sizes, 0, 1, 1), "stored")  # kernels are loaded, or compiled, here
    wanted = list(rows())
    problems: dict[tuple[str, bool], Problem] = {}
    found = []
    for number, row in enumerate(wanted):
        key = row.forecast, row.length > LENGTH
        if key not in problems:
            sizes = data.sizes if row.forecast == "stored" else data.sizes.perfect()
            length = max(r.length for r in wanted if (r.forecast, r.length > LENGTH) == key)
            problems[key] = data.problem(sizes, 0, length)
        whole = problems[key]
        same = row.length == whole.length and row.penalty == whole.penalty
        problem = whole if same else whole.part(row.length, row.penalty)
        found.append(ParityRow(carry_out(row.controller, problem, row.forecast), row.printed))
        advance(number + 1, len(wanted))
    return found
