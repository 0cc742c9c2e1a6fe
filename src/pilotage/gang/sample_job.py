"""A job made up of formulas, for learning and trying without any file."""

from __future__ import annotations

import numpy as np

from pilotage.gang.job import Job, Task
from pilotage.gang.problem import Budget
from pilotage.gang.profile import Profile
from pilotage.gang.series import Series
from pilotage.model.workload import FloatArray
from pilotage.workloads.fields import Field

HOUR = 3600.0
SIZES, SHARES = np.linspace(10.0, 50.0, 9), np.arange(500.0, 6001.0, 500.0)


def sample_job(seed: int = 0, tasks: int = 4, rows: int = 100, values: int = 700) -> Job:
    """Tasks with a rhythm of a day, each at its own hour, and noise that lasts; work that is not all parallel."""
    random = np.random.default_rng(seed)
    names = tuple(f"task-{j}" for j in range(tasks))
    hour_N = np.arange(values, dtype=np.float64)
    own = [_series(name, hour_N, random) for name in names]
    size_M, share_M = (grid.ravel() for grid in np.meshgrid(SIZES, SHARES, indexing="ij"))
    seconds = [1.0 + size_M * random.uniform(0.5, 2.0) * (0.1 + 0.9 * 1000.0 / share_M) for _ in names]
    profile = Profile(
        names,
        np.repeat(np.arange(tasks), len(size_M)),
        np.tile(size_M, tasks),
        np.tile(share_M, tasks),
        np.concatenate(seconds),
        "sample job",
    )
    return Job(
        name="sample",
        budget=Budget(tasks * 2000, 500, 100),
        penalty=10.0,
        smallest=10.0,
        largest=50.0,
        profile=profile,
        rows=rows,
        horizon=10,
        forecaster="seasonal-day",
        tasks=tuple(Task(series.name, series) for series in own),
        place=Field(None, "sample job", 1, 1),
    )


def _series(name: str, hour_N: FloatArray, random: np.random.Generator) -> Series:
    noise_N = np.zeros(len(hour_N))
    for n, shock in enumerate(random.normal(0.0, 0.15, len(hour_N))):
        noise_N[n] = 0.8 * noise_N[n - 1] + shock
    value_N = np.sin(2 * np.pi * (hour_N / 24.0 + random.uniform())) + noise_N
    return Series(name, hour_N * HOUR, value_N)
