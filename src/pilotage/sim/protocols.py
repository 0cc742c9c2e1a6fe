"""The two kinds of run: the OpenB protocol, and runs over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pilotage.model.errors import InputError
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.sim.consolidation import Consolidation, advance_with_consolidation, consolidate_openb
from pilotage.sim.results import (
    RunResult,
    consolidated_result,
    left_on_nodes,
    openb_result,
    timed_result,
    with_moves,
)
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.arrivals import OpenbArrival, openb_arrival, poisson_arrival
from pilotage.workloads.trace import Trace

MOST_FAILURES = 1_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of timed runs."""

    load: float | None = (
        None  # offered GPU time / capacity, by resampled Poisson arrivals; None = the trace's own times
    )
    arrivals: int | None = None  # pods to resample; None = as many as the trace has
    warm_up: float = 0.2  # share of the arrival window that is not measured
    mtbf_hours: float | None = None  # mean time between failures of a node; None = nodes never fail
    mttr_hours: float = 1.0  # mean time to repair
    samples: int = 200  # points of the time series


def mix_of(trace: Trace) -> WorkloadMix:
    """The mix policies are prepared with: of the trace itself, before shuffling, tuning or resampling."""
    return WorkloadMix.of(trace.workload)


@lru_cache(maxsize=4)
def arrival_of(trace: Trace, load: float, seed: int) -> OpenbArrival:
    """The published order; kept, because policies are compared on the same one."""
    return openb_arrival(trace.workload, trace.nodes, load, seed)


def openb_run(trace: Trace, policy: Policy, seed: int, load: float, *, reasons: bool = False) -> Run:
    """Arrivals only: shuffled and tuned to `load` x GPU capacity; what does not fit is refused."""
    arrival = arrival_of(trace, load, seed)
    settings = RunSettings(retry=False, seed=seed, reasons=reasons)
    return Run(trace.nodes, arrival.workload, policy, settings, rank_N=arrival.rank_N, mix=mix_of(trace))


def timed_run(trace: Trace, policy: Policy, seed: int, timing: Timing, *, reasons: bool = False) -> Run:
    """Arrivals, departures, retries, node failures."""
    if timing.load is None and not trace.workload.timed:
        raise InputError(f"trace {trace.name!r} has no times", field="load", expected="--load, to resample arrivals")
    if timing.load is None:
        workload = trace.workload.take(np.argsort(trace.workload.arrival_P, kind="stable"))
    else:
        workload = poisson_arrival(trace.workload, trace.nodes, timing.load, seed, timing.arrivals)
    first, last = float(workload.arrival_P[0]), float(workload.arrival_P[-1])
    window = (first + timing.warm_up * (last - first), last)
    if window[1] <= window[0]:
        raise InputError(f"all pods of trace {trace.name!r} arrive at once: nothing to measure over time")
    settings = RunSettings(
        retry=True,
        seed=seed,
        measure=window,
        samples=timing.samples,
        node_events=failures(trace, timing, seed, (first, last)),
        reasons=reasons,
    )
    ranks = np.argsort(np.argsort([node.name for node in trace.nodes], kind="stable"), kind="stable")
    return Run(trace.nodes, workload, policy, settings, rank_N=ranks, mix=mix_of(trace))


def failures(trace: Trace, timing: Timing, seed: int, span: tuple[float, float]) -> tuple[NodeEvent, ...]:
    """Each node fails and recovers by itself, after exponential times."""
    if timing.mtbf_hours is None:
        return ()
    start, end = span
    expected = len(trace.nodes) * (end - start) / (3600 * (timing.mtbf_hours + timing.mttr_hours))
    if expected > MOST_FAILURES:
        problem = f"{timing.mtbf_hours:g} hours: about {expected:.2g} failures in {(end - start) / 3600:.4g} hours"
        raise InputError(problem, field="--mtbf", expected=f"at most {MOST_FAILURES} failures")
    events = []
    for n, node in enumerate(trace.nodes):
        random = np.random.Generator(np.random.PCG64([seed, n]))
        clock = start
        while True:
            clock += float(random.exponential(timing.mtbf_hours * 3600))
            if clock > end:
                break
            events.append(NodeEvent(clock, node.name, up=False))
            clock += float(random.exponential(timing.mttr_hours * 3600))
            events.append(NodeEvent(clock, node.name, up=True))
    return tuple(events)


def run_openb(
    trace: Trace,
    policy: Policy,
    seed: int,
    load: float,
    consolidation: Consolidation | None = None,
    *,
    leftover: bool = False,
) -> RunResult:
    run = openb_run(trace, policy, seed, load)
    run.advance()
    if consolidation is None:
        result = openb_result(run, trace.name, policy.name, seed, load)
    else:
        moved = consolidate_openb(run, consolidation)
        result = consolidated_result(openb_result(run, trace.name, policy.name, seed, load), run, moved)
    return replace(result, leftover=left_on_nodes(run)) if leftover else result


def run_timed(
    trace: Trace,
    policy: Policy,
    seed: int,
    timing: Timing,
    consolidation: Consolidation | None = None,
    *,
    leftover: bool = False,
) -> RunResult:
    run = timed_run(trace, policy, seed, timing)
    moves = None if consolidation is None else advance_with_consolidation(run, consolidation)
    left = None
    if leftover:
        run.advance_to(run.settings.measure[1])
        left = left_on_nodes(run)
    run.advance_to(float("inf"))
    result = timed_result(run, trace.name, policy.name, seed, timing.load or 0.0)
    return replace(with_moves(result, moves) if moves else result, leftover=left)
