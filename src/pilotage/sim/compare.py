"""Policies x traces x seeds: the runs, what they lost before L0, and the table that people read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.bound import DIGITS, PackingBound, packing_bound
from pilotage.sim.pool import RunSpec, TraceSource, execute_all
from pilotage.sim.protocols import Timing, arrival_of
from pilotage.sim.results import RunResult
from pilotage.sim.statistics import interval
from pilotage.workloads.trace import Trace

REFERENCE = "fgd"  # the policy that the packing bound is measured from
FORCED_SHARE = 0.96  # L0 = this x the reference's allocation
LOST_MORE_PERCENT = 0.3  # a policy that loses more than the reference + this before L0 has no share of the room

OPENB_METRICS = (
    "gpu_allocation_percent",
    "fragmentation_percent",
    "fragmentation_idle_percent",
    "cpu_allocation_percent",
    "memory_allocation_percent",
    "nodes_used",
    "cpu_variance",
    "gpu_variance",
    "failed_pods",
    "failed_cpu_pods",
    "failed_multi_gpu_pods",
    "lost_before_l0_percent",
)
TIMED_METRICS = (
    *OPENB_METRICS[:-1],
    "mean_wait",
    "p95_wait",
    "gpu_weighted_wait",
    "mean_waiting_pods",
    "restarts",
)


@dataclass(frozen=True)
class Comparison:
    """What to compare."""

    sources: tuple[TraceSource, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    protocol: str = "openb"
    load: float = 1.3
    baseline: str | None = None
    timing: Timing = field(default_factory=Timing)
    with_bound: bool = True

    @property
    def baseline_name(self) -> str:
        """Full name of the baseline: the one asked for, else FGD where it takes part, else the first policy."""
        names = [find_policy(text).name for text in self.policies]
        wanted = find_policy(self.baseline or REFERENCE).name
        if wanted in names:
            return wanted
        if self.baseline:
            problem = f"{self.baseline} does not take part"
            raise InputError(problem, field="--baseline", expected=f"one of {', '.join(self.policies)}")
        return names[0]


@dataclass(frozen=True)
class Row:
    """One line of the summary; also what `--json` prints."""

    trace: str
    policy: str
    metric: str
    mean: float
    low: float | None
    high: float | None
    baseline: str
    difference: float
    difference_low: float | None
    difference_high: float | None
    room_closed_percent: float | None


@dataclass(frozen=True)
class Outcome:
    """Everything a comparison found out. `seconds` is apart: stored results hold no times."""

    comparison: Comparison
    traces: tuple[Trace, ...]
    runs: tuple[RunResult, ...]
    seconds: tuple[float, ...]
    bounds: dict[tuple[str, int], PackingBound]
    summary: tuple[Row, ...]


def compare(comparison: Comparison, jobs: int = 1, progress: Callable[[int, int], None] = lambda *_: None) -> Outcome:
    """Runs everything. Results do not depend on `jobs`."""
    traces = tuple(source.load() for source in comparison.sources)
    baseline = comparison.baseline_name
    bounded = comparison.with_bound and comparison.protocol == "openb" and all(_has_gpus(t) for t in traces)
    policies = list(comparison.policies)
    reference = find_policy(REFERENCE).name
    if bounded and reference not in [find_policy(text).name for text in policies]:
        policies.append(REFERENCE)
    # Policies innermost: the arrivals of a seed are then made once. Results are put into the order of the comparison.
    specs = [
        RunSpec(source, policy, seed, comparison.protocol, comparison.load, comparison.timing)
        for source in comparison.sources
        for seed in comparison.seeds
        for policy in policies
    ]
    finished = execute_all(specs, jobs, lambda count: progress(count, len(specs)))
    places = {(trace.name, find_policy(text).name): k for k, (trace, text) in enumerate(product(traces, policies))}
    finished.sort(key=lambda pair: places[pair[0].trace, pair[0].policy])
    bounds: dict[tuple[str, int], PackingBound] = {}
    runs = [result for result, _ in finished]
    if bounded:
        for trace in traces:
            share = forced_load([r for r in runs if r.trace == trace.name and r.policy == reference])
            bounds |= trace_bounds(trace, comparison.seeds, comparison.load, share)
        runs = [_with_loss(r, bounds[r.trace, r.seed].forced_load_percent / 100) for r in runs]
    summary = summarise(runs, comparison, baseline, bounds, reference)
    asked = {find_policy(text).name for text in comparison.policies}
    kept = [i for i, run in enumerate(runs) if run.policy in asked]
    return Outcome(
        comparison,
        traces,
        tuple(runs[i] for i in kept),
        tuple(finished[i][1] for i in kept),
        bounds,
        tuple(row for row in summary if row.policy in asked),
    )


def _has_gpus(trace: Trace) -> bool:
    return any(node.gpu_count for node in trace.nodes) and bool(trace.workload.gpu_milli_P.any())


def forced_load(reference_runs: Sequence[RunResult]) -> float:
    """L0: pods that arrive below this load (a fraction) must be placed, by convention."""
    return FORCED_SHARE * float(np.mean([run.gpu_allocation_percent for run in reference_runs])) / 100


def trace_bounds(trace: Trace, seeds: Sequence[int], load: float, share: float) -> dict[tuple[str, int], PackingBound]:
    devices = sum(node.gpu_count for node in trace.nodes)
    return {(trace.name, seed): packing_bound(arrival_of(trace, load, seed).workload, devices, share) for seed in seeds}


def _with_loss(run: RunResult, share: float) -> RunResult:
    """Adds the GPU capacity of pods refused while the arrived load was at most L0."""
    if run.lost_at is None:
        return run
    arrived, lost = run.lost_at
    return replace(run, lost_before_l0_percent=100 * float(lost[arrived <= share + 1e-12].sum()))


def summarise(
    runs: Sequence[RunResult],
    comparison: Comparison,
    baseline: str,
    bounds: dict[tuple[str, int], PackingBound],
    reference: str,
) -> list[Row]:
    """Rows by trace, policy, metric, in the order of the comparison; differences are paired by seed."""
    metrics = OPENB_METRICS if comparison.protocol == "openb" else TIMED_METRICS
    values: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for metric in metrics:
            value = getattr(run, metric)
            if value is not None:
                values.setdefault((run.trace, run.policy, metric), []).append(float(value))
    rows = []
    for (trace, policy, metric), own in values.items():
        mean = interval(own)
        difference = interval(np.subtract(own, values[trace, baseline, metric]))
        room = None
        if metric == "gpu_allocation_percent":
            room = _room_closed(values, trace, policy, reference, [b for (t, _), b in bounds.items() if t == trace])
        numbers = (mean.mean, mean.low, mean.high, difference.mean, difference.low, difference.high, room)
        a, b, c, d, e, f, g = (None if x is None else round(x, DIGITS) for x in numbers)
        rows.append(Row(trace, policy, metric, a or 0.0, b, c, baseline, d or 0.0, e, f, g))
    return rows


def _room_closed(
    values: dict[tuple[str, str, str], list[float]],
    trace: str,
    policy: str,
    reference: str,
    bounds: Sequence[PackingBound],
) -> float | None:
    """Share of the room between reference and bound: a ratio of means over the seeds."""
    if not bounds or any(bound.bound_percent is None for bound in bounds):
        return None

    def mean(name: str, metric: str) -> float:
        return float(np.mean(values[trace, name, metric]))

    lost = mean(policy, "lost_before_l0_percent") - mean(reference, "lost_before_l0_percent")
    own, base = (mean(name, "gpu_allocation_percent") for name in (policy, reference))
    room = float(np.mean([bound.bound_percent for bound in bounds if bound.bound_percent is not None])) - base
    if lost > LOST_MORE_PERCENT or room <= 0:
        return None
    return 100 * (own - base) / room
