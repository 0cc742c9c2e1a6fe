"""Many runs on the cores of one machine, in a fixed order whatever the number of jobs."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pilotage.policies.api import Policy, compiled_rules
from pilotage.policies.registry import find_policy
from pilotage.sim.protocols import Timing, run_openb, run_timed
from pilotage.sim.results import RunResult
from pilotage.workloads.trace import Trace, load_trace

# A process takes about two seconds to start and load the kernels; it has to have more than that to do.
_SECONDS_WORTH_A_PROCESS = 2.0
_DECISIONS_PER_SECOND = {True: 200_000, False: 4_000}  # compiled or not; rough, only to tell small work from large


@dataclass(frozen=True)
class TraceSource:
    """Where a trace comes from; every process reads it for itself."""

    nodes: Path | None = None
    pods: Path | None = None
    name: str | None = None

    def load(self) -> Trace:
        return _load(self)


@lru_cache(maxsize=16)
def _load(source: TraceSource) -> Trace:
    return load_trace(nodes=source.nodes, pods=source.pods, name=source.name)


@dataclass(frozen=True)
class RunSpec:
    """One run, as text and numbers only: it can be sent to another process or machine."""

    source: TraceSource
    policy: str
    seed: int
    protocol: str  # "openb" or "timed"
    load: float = 1.3
    timing: Timing = field(default_factory=Timing)


@lru_cache(maxsize=64)
def _policy(text: str) -> Policy:
    return find_policy(text)


def execute(spec: RunSpec) -> tuple[RunResult, float]:
    """The result and the seconds it took, reading the trace not included."""
    trace, policy = spec.source.load(), _policy(spec.policy)
    started = time.perf_counter()
    if spec.protocol == "openb":
        result = run_openb(trace, policy, spec.seed, spec.load)
    else:
        result = run_timed(trace, policy, spec.seed, spec.timing)
    return result, time.perf_counter() - started


def execute_all(
    specs: Sequence[RunSpec], jobs: int, done: Callable[[int], None] = lambda _: None
) -> list[tuple[RunResult, float]]:
    """All runs in the order given. `done` hears how many are finished."""
    results = []
    for count, result in enumerate(_results(specs, jobs), start=1):
        results.append(result)
        done(count)
    return results


def _results(specs: Sequence[RunSpec], jobs: int) -> Iterator[tuple[RunResult, float]]:
    workers = min(jobs, int(_expected_seconds(specs) / _SECONDS_WORTH_A_PROCESS))
    if workers <= 1:
        yield from map(execute, specs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        # Neighbours share a trace, so a chunk is read once per process.
        yield from pool.map(execute, specs, chunksize=max(1, len(specs) // (workers * 8)))


def _expected_seconds(specs: Sequence[RunSpec]) -> float:
    return sum(
        len(spec.source.load().workload) / _DECISIONS_PER_SECOND[compiled_rules(_policy(spec.policy)) is not None]
        for spec in specs
    )
