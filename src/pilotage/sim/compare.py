"""Policies x traces x loads x seeds: the runs, what they lost before L0, and the table that people read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.bound import PackingBound, packing_bound
from pilotage.sim.consolidation import Consolidation
from pilotage.sim.engines import Engine, LocalEngine, tasks_of
from pilotage.sim.protocols import Timing, arrival_of
from pilotage.sim.results import RunResult, rounded
from pilotage.sim.specs import RunSpec, TraceSource
from pilotage.sim.statistics import interval
from pilotage.workloads.trace import Trace

if TYPE_CHECKING:
    from pilotage.sim.run_store import RunStore

REFERENCE = "fgd"  # the policy that the packing bound is measured from
FORCED_SHARE = 0.96  # L0 = this x the reference's allocation
LOST_MORE_PERCENT = 0.3  # a policy that loses more than the reference + this before L0 has no share of the room

METRICS = (
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
    "mean_wait",
    "p95_wait",
    "gpu_weighted_wait",
    "mean_waiting_pods",
    "restarts",
    "gang_distance",
    "moved_pods",
    "moved_gpus",
    "moved_gpu_hours",
    "memory_variance",
)  # those that a run has


MOVES = ("moved_pods", "moved_gpus", "moved_gpu_hours")


@dataclass(frozen=True, slots=True)
class Price:
    """What a GPU costs."""

    per_gpu_hour: float
    unit: str = ""  # of money, as written


@dataclass(frozen=True)
class Comparison:
    """What to compare."""

    sources: tuple[TraceSource, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    protocol: str = "openb"
    loads: tuple[float, ...] = (1.3,)  # timed: 0 = the trace's own times
    baseline: str | None = None
    timing: Timing = field(default_factory=Timing)  # its load is set by `loads`
    consolidation: Consolidation | None = None  # every policy runs without and with it
    price: Price | None = None
    with_bound: bool = True

    @property
    def baseline_name(self) -> str:
        """Full name of the baseline: the one asked for, else FGD where it takes part, else the first policy."""
        names = [find_policy(text).name for text in self.policies]
        try:
            wanted = find_policy(self.baseline or REFERENCE).name
        except InputError as error:
            raise InputError(error.problem, field="--baseline", expected=error.expected) from error
        if wanted in names:
            return wanted
        if self.baseline:
            problem = f"{self.baseline} does not take part"
            raise InputError(problem, field="--baseline", expected=f"one of {', '.join(self.policies)}")
        return names[0]

    def settings(self) -> dict[str, object]:
        """What was compared, wherever it was said; places of files are no part of it."""
        timing = {name: value for name, value in asdict(self.timing).items() if name != "load"}
        return {
            "protocol": self.protocol,
            "policies": [find_policy(text).name for text in self.policies],
            "baseline": self.baseline_name,
            "seeds": list(self.seeds),
            "loads": list(self.loads),
            "timing": timing if self.protocol == "timed" else None,
            "consolidation": self.consolidation and asdict(self.consolidation),
            "price": self.price and asdict(self.price),
        }

    def specs(self, policies: Sequence[str]) -> list[RunSpec]:
        """All runs. Policies innermost: the arrivals of a seed are then made once."""
        variants = (None,) if self.consolidation is None else (None, self.consolidation)
        return [
            RunSpec(
                source,
                policy,
                seed,
                self.protocol,
                load,
                replace(self.timing, load=load or None),
                consolidation=variant,
                leftover=seed == self.seeds[0],
                digest=digest,
            )
            for source, digest in zip(self.sources, [source.load().digest for source in self.sources], strict=True)
            for load in self.loads
            for seed in self.seeds
            for policy in policies
            for variant in variants
        ]


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
    load: float


@dataclass(frozen=True)
class Outcome:
    """Everything a comparison found out. `seconds` is apart: stored results hold no times."""

    comparison: Comparison
    traces: tuple[Trace, ...]
    runs: tuple[RunResult, ...]
    seconds: tuple[float, ...]
    bounds: dict[tuple[str, float, int], PackingBound]  # by trace, load, seed
    summary: tuple[Row, ...]


def compare(
    comparison: Comparison,
    engine: Engine = LocalEngine(),
    store: RunStore | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Outcome:
    """Runs everything that is not in the store. Results depend on neither engine nor store."""
    traces = tuple(source.load() for source in comparison.sources)
    baseline = comparison.baseline_name
    bounded = comparison.with_bound and comparison.protocol == "openb" and all(_has_gpus(t) for t in traces)
    reference = find_policy(REFERENCE).name
    asked = list(comparison.policies)
    hidden = [REFERENCE] if bounded and reference not in [find_policy(text).name for text in asked] else []
    specs = comparison.specs([*asked, *hidden])
    finished = run_all(specs, engine, store, progress)
    runs = [replace(finished[spec][0], policy=spec.label) for spec in specs]
    bounds: dict[tuple[str, float, int], PackingBound] = {}
    if bounded:
        for trace in traces:
            for load in comparison.loads:
                own = [r for r in runs if (r.trace, r.load, r.policy) == (trace.name, load, reference)]
                bounds |= trace_bounds(trace, comparison.seeds, load, forced_load(own))
        runs = [_with_loss(r, bounds[r.trace, r.load, r.seed].forced_load_percent / 100) for r in runs]
    shown = {spec.label for spec in comparison.specs(asked)}
    # In the order of the comparison: traces, loads, policies, seeds.
    place = {(s.source.load().name, s.load, s.label): k for k, s in reversed(list(enumerate(specs)))}
    order = sorted(range(len(runs)), key=lambda i: place[runs[i].trace, runs[i].load, runs[i].policy])
    summary = summarise([runs[i] for i in order], baseline, bounds, reference)
    kept = [i for i in order if runs[i].policy in shown]
    return Outcome(
        comparison,
        traces,
        tuple(runs[i] for i in kept),
        tuple(finished[specs[i]][1] for i in kept),
        bounds,
        tuple(row for row in summary if row.policy in shown),
    )


def run_all(
    specs: Sequence[RunSpec], engine: Engine, store: RunStore | None, progress: Callable[[int, int], None]
) -> dict[RunSpec, tuple[RunResult, float]]:
    """The result of every run, from the store or carried out, and stored as it comes."""
    found = {spec: store.find(spec) for spec in specs} if store else {}
    finished = {spec: known for spec, known in found.items() if known is not None}
    progress(len(finished), len(specs))
    for results in engine.finished(tasks_of([spec for spec in specs if spec not in finished])):
        for spec, result, seconds in results:
            finished[spec] = result, seconds
            if store:
                store.keep(spec, result, seconds)
        progress(len(finished), len(specs))
    return finished


def _has_gpus(trace: Trace) -> bool:
    return any(node.gpu_count for node in trace.nodes) and bool(trace.workload.gpu_milli_P.any())


def forced_load(reference_runs: Sequence[RunResult]) -> float:
    """L0: pods that arrive below this load (a fraction) must be placed, by convention."""
    return FORCED_SHARE * float(np.mean([run.gpu_allocation_percent for run in reference_runs])) / 100


def trace_bounds(
    trace: Trace, seeds: Sequence[int], load: float, share: float
) -> dict[tuple[str, float, int], PackingBound]:
    devices = sum(node.gpu_count for node in trace.nodes)
    return {
        (trace.name, load, seed): packing_bound(arrival_of(trace, load, seed).workload, devices, share)
        for seed in seeds
    }


def _with_loss(run: RunResult, share: float) -> RunResult:
    """Adds the GPU capacity of pods refused while the arrived load was at most L0."""
    if run.lost_at is None:
        return run
    arrived, lost = run.lost_at
    return replace(run, lost_before_l0_percent=100 * float(lost[arrived <= share + 1e-12].sum()))


def summarise(
    runs: Sequence[RunResult],
    baseline: str,
    bounds: dict[tuple[str, float, int], PackingBound],
    reference: str,
) -> list[Row]:
    """Rows by trace, load, policy, metric, in the order of the runs; differences are paired by seed."""
    values: dict[tuple[str, float, str, str], dict[int, float]] = {}
    for run in runs:
        for metric in METRICS:
            value = getattr(run, metric)
            if value is not None:
                values.setdefault((run.trace, run.load, run.policy, metric), {})[run.seed] = float(value)
    varied = {key[:3] for key, by_seed in values.items() if len(set(by_seed.values())) > 1}
    rows = []
    for (trace, load, policy, metric), own in values.items():
        # Moves: who has none has zero. Other figures are paired over the seeds that have both.
        base = values.get((trace, load, baseline, metric), dict.fromkeys(own, 0.0) if metric in MOVES else {})
        pairs = [own[seed] - base[seed] for seed in own if seed in base]
        if not pairs:
            continue  # a figure that the baseline has for none of these seeds
        # Seeds that change nothing at all (own times, no failures) are one run seen several times: no interval.
        alone = (trace, load, policy) not in varied
        mean = interval(list(own.values())[: 1 if alone else None])
        both_alone = alone and (trace, load, baseline) not in varied
        difference = interval(pairs[: 1 if both_alone else None])
        room = None
        if metric == "gpu_allocation_percent":
            here = [bound for (t, at, _), bound in bounds.items() if (t, at) == (trace, load)]
            here_values = {key[2:]: [*v.values()] for key, v in values.items() if key[:2] == (trace, load)}
            room = _room_closed(here_values, policy, reference, here)
        numbers = (mean.mean, mean.low, mean.high, difference.mean, difference.low, difference.high, room)
        a, b, c, d, e, f, g = (None if x is None else rounded(metric, x, mean.mean) for x in numbers)
        rows.append(Row(trace, policy, metric, a or 0.0, b, c, baseline, d or 0.0, e, f, g, load))
    return rows


def _room_closed(
    values: dict[tuple[str, str], list[float]], policy: str, reference: str, bounds: Sequence[PackingBound]
) -> float | None:
    """Share of the room between reference and bound: a ratio of means over the seeds."""
    if not bounds or any(bound.bound_percent is None for bound in bounds):
        return None

    def mean(name: str, metric: str) -> float:
        return float(np.mean(values[name, metric]))

    lost = mean(policy, "lost_before_l0_percent") - mean(reference, "lost_before_l0_percent")
    own, base = (mean(name, "gpu_allocation_percent") for name in (policy, reference))
    room = float(np.mean([bound.bound_percent for bound in bounds if bound.bound_percent is not None])) - base
    if lost > LOST_MORE_PERCENT or room <= 0:
        return None
    return 100 * (own - base) / room
