"""What a window controller learns on: rows before the first superstep of a job, series exchanged between tasks.

The supersteps of the job itself are never seen. Exchanging which series drives which task makes several problems of
one: the tasks keep their durations, the series their errors of forecast.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from pilotage.gang.dividing import bound
from pilotage.gang.job import Job, Outlook
from pilotage.gang.scenario_mpc import ScenarioMpc
from pilotage.gang.sizes import Sizes
from pilotage.gang.window_policy import stretch_of
from pilotage.kernels.gang_windows import Stretch
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

EARLIER = 700  # rows before the first superstep that are forecast
FEWEST_ROWS = 20


@dataclass(frozen=True)
class Ground:
    """Stretches of training rows as tables, the exact time of each superstep, and usual penalties."""

    stretches: tuple[Stretch, ...]
    exact_NT: tuple[FloatArray, ...]  # seconds that no division beats
    penalty: float  # of the job
    fingerprint: str = ""  # of the rows it was made from

    def draw(self, random: np.random.Generator, shortest: int, longest: int) -> Episode:
        """Of the rows to learn from, at any penalty."""
        n = int(random.integers(len(self.stretches)))
        rows = self.learned_rows(n)
        length = int(random.integers(min(shortest, rows), min(longest, rows) + 1))
        first = int(random.integers(rows - length + 1))
        penalty = self.penalty * float(np.exp(random.uniform(*np.log(PENALTIES))))
        return Episode(n, first, length, penalty)

    def learned_rows(self, n: int) -> int:
        """Rows of a stretch to learn from; those behind them are there to validate."""
        return int((1.0 - HELD_OUT) * len(self.stretches[n].actual_TJC))

    def held_out(self) -> list[Episode]:
        """The last rows of every stretch, which no drawn episode has, at penalties from low to high."""
        found = []
        for n, stretch in enumerate(self.stretches):
            first = self.learned_rows(n)
            length = len(stretch.actual_TJC) - first
            found += [Episode(n, first, length, self.penalty * factor) for factor in np.geomspace(*PENALTIES, 5)]
        return found


PENALTIES = (1 / 3, 7.0)  # times that of the job: those of the published sweep lie between
HELD_OUT = 0.25  # part of each stretch, the last one


@dataclass(frozen=True)
class Episode:
    """So many rows of a stretch from `first` on, at a penalty."""

    stretch: int
    first: int
    length: int
    penalty: float


def training_ground(job: Job, mixtures: int, seed: int, outlook: Outlook | None = None) -> Ground:
    """The rows right before the job's own, as they are and with series exchanged `mixtures` - 1 times."""
    seen = job.outlook(EARLIER) if outlook is None else outlook
    rows = seen.before * 4 // 7  # behind them, rows from which misses are known when they begin
    if rows < FEWEST_ROWS:
        raise InputError(
            f"{seen.before} values before the first superstep",
            field="rows",
            expected=f"series with at least {FEWEST_ROWS * 2} values more, or fewer rows",
        )
    random = np.random.default_rng(seed)
    past = replace(job, rows=rows)
    stretches, exact = [], []
    for mixture in range(mixtures):
        order_J = np.arange(len(job.tasks)) if mixture == 0 else random.permutation(len(job.tasks))
        sizes = Sizes(seen.sizes.forecast_THJ[..., order_J], seen.sizes.actual_THJ[..., order_J])
        problem = past.problem(Outlook(sizes, seen.before), -rows, rows, 1)
        stretches.append(stretch_of(problem, ScenarioMpc(seed=seed + mixture).outlooks(problem)))
        exact.append(bound(problem.actual_TJC, job.room()))
    known = seen.sizes.rows(0, seen.before)
    digest = hashlib.sha256(known.forecast_THJ.tobytes() + known.actual_THJ.tobytes()).hexdigest()
    return Ground(tuple(stretches), tuple(exact), job.penalty, digest)
