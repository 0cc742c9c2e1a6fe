"""Who won: policies against baselines, trace by trace and seed by seed, losses as well as wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pilotage.sim.compare import LOST_MORE_PERCENT, REFERENCE, Outcome, Row, summarise
from pilotage.sim.results import RunResult, rounded
from pilotage.workloads.trace import Trace

HIGHER_IS_BETTER: Final = ("gpu_allocation_percent", "cpu_allocation_percent", "memory_allocation_percent")
FAILED_MORE: Final = 0.02  # of the baseline's failed pods: a policy that fails more has not gained
HALF_A_POD: Final = 0.5  # and more than this many: means over seeds are no whole numbers
EQUAL: Final = 1e-9  # two runs whose figures differ by no more are equal

Verdict = Literal["won", "lost", "tied"]
Key = tuple[str, float, str, str]  # trace, load, policy, metric


@dataclass(frozen=True)
class Case:
    """One policy against one baseline on one trace at one load, by one metric. A positive gain is better."""

    condition: str
    trace: str
    load: float
    metric: str
    policy: str
    baseline: str
    verdict: Verdict
    mean: float
    baseline_mean: float
    gain: float  # paired by seed, mean
    gain_low: float | None  # its 95 % interval
    gain_high: float | None
    seeds_won: int
    seeds_lost: int
    seeds_tied: int
    worst_seed: int
    worst_gain: float
    room_closed_percent: float | None
    lost_before_l0_percent: float | None
    baseline_lost_before_l0_percent: float | None
    failed_cpu_pods: float
    baseline_failed_cpu_pods: float
    failed_multi_gpu_pods: float
    baseline_failed_multi_gpu_pods: float
    objections: tuple[str, ...]  # why a gain does not count


@dataclass(frozen=True)
class Tally:
    """All cases of one policy against one baseline under one condition, by one metric."""

    condition: str
    metric: str
    policy: str
    baseline: str
    traces_won: int
    traces_lost: int
    traces_tied: int
    seeds_won: int
    seeds_lost: int
    seeds_tied: int
    mean_gain: float
    mean_room_closed_percent: float | None  # over the traces; none where one of them has none
    worst_trace: str
    worst_load: float
    worst_seed: int
    worst_gain: float


def metrics_of(trace: Trace, protocol: str) -> tuple[str, ...]:
    """What policies are judged by on a trace unless told, the one that counts first."""
    if any(node.gpu_count for node in trace.nodes) and trace.workload.gpu_milli_P.any():
        return ("gpu_allocation_percent",) if protocol == "openb" else ("gpu_allocation_percent", "gpu_weighted_wait")
    return ("cpu_variance", "memory_variance") if protocol == "openb" else ("cpu_variance", "mean_wait")


def cases_of(
    condition: str,
    outcome: Outcome,
    contenders: Sequence[str],
    baselines: Sequence[str],
    metrics: Sequence[str] = (),
) -> list[Case]:
    """Every contender against every baseline, in the order of the comparison. Names are full names of policies."""
    rooms = {(row.trace, row.load, row.policy): row.room_closed_percent for row in outcome.summary if _has_room(row)}
    found = []
    for baseline in baselines:
        rows = {
            (row.trace, row.load, row.policy, row.metric): row
            for row in summarise(outcome.runs, baseline, {}, REFERENCE)
        }
        found += [
            _case(condition, (trace.name, load, policy, metric), baseline, rows, outcome.runs, rooms)
            for trace in outcome.traces
            for load in outcome.comparison.loads
            for metric in metrics or metrics_of(trace, outcome.comparison.protocol)
            for policy in contenders
            if (trace.name, load, policy, metric) in rows
        ]
    return found


def _has_room(row: Row) -> bool:
    return row.metric == "gpu_allocation_percent"


def _case(
    condition: str,
    key: Key,
    baseline: str,
    rows: dict[Key, Row],
    runs: Sequence[RunResult],
    rooms: dict[tuple[str, float, str], float | None],
) -> Case:
    trace, load, policy, metric = key
    row, sign = rows[key], 1.0 if metric in HIGHER_IS_BETTER else -1.0
    ends = [None if end is None else sign * end for end in (row.difference_low, row.difference_high)]
    low, high = ends if sign > 0 else ends[::-1]
    gains = _gains(runs, key, baseline, sign)
    worst = min(gains, key=lambda seed: (gains[seed], seed))

    def mean(name: str, figure: str) -> float | None:
        known = rows.get((trace, load, name, figure))
        return None if known is None else known.mean

    def pods(name: str, figure: str) -> float:
        return mean(name, figure) or 0.0

    figures = ("failed_cpu_pods", "failed_multi_gpu_pods")
    own, base = ([pods(name, figure) for figure in figures] for name in (policy, baseline))
    lost, base_lost = (mean(name, "lost_before_l0_percent") for name in (policy, baseline))
    objections = _objections(own, base, lost, base_lost)
    return Case(
        condition=condition,
        trace=trace,
        load=load,
        metric=metric,
        policy=policy,
        baseline=baseline,
        verdict=_verdict(sign * row.difference, low, high, objections),
        mean=row.mean,
        baseline_mean=rows[trace, load, baseline, metric].mean,
        gain=sign * row.difference,
        gain_low=low,
        gain_high=high,
        seeds_won=sum(gain > EQUAL for gain in gains.values()),
        seeds_lost=sum(gain < -EQUAL for gain in gains.values()),
        seeds_tied=sum(abs(gain) <= EQUAL for gain in gains.values()),
        worst_seed=worst,
        worst_gain=rounded(metric, gains[worst], row.mean),
        room_closed_percent=rooms.get((trace, load, policy)) if metric == "gpu_allocation_percent" else None,
        lost_before_l0_percent=lost,
        baseline_lost_before_l0_percent=base_lost,
        failed_cpu_pods=own[0],
        baseline_failed_cpu_pods=base[0],
        failed_multi_gpu_pods=own[1],
        baseline_failed_multi_gpu_pods=base[1],
        objections=objections,
    )


def _gains(runs: Sequence[RunResult], key: Key, baseline: str, sign: float) -> dict[int, float]:
    """Seed by seed."""
    trace, load, policy, metric = key
    values = {
        (run.policy, run.seed): float(value)
        for run in runs
        if (run.trace, run.load) == (trace, load) and (value := getattr(run, metric)) is not None
    }
    seeds = [seed for name, seed in values if name == policy and (baseline, seed) in values]
    return {seed: sign * (values[policy, seed] - values[baseline, seed]) for seed in seeds}


def _objections(
    failed: Sequence[float], base_failed: Sequence[float], lost: float | None, base_lost: float | None
) -> tuple[str, ...]:
    """What a gain was bought with."""
    found = []
    if lost is not None and base_lost is not None and lost > base_lost + LOST_MORE_PERCENT:
        found.append("loses more before L0")
    for what, own, base in zip(("CPU-only", "multi-GPU"), failed, base_failed, strict=True):
        if own > base * (1 + FAILED_MORE) and own > base + HALF_A_POD:
            found.append(f"fails more {what} pods")
    return tuple(found)


def _verdict(gain: float, low: float | None, high: float | None, objections: tuple[str, ...]) -> Verdict:
    """By the interval, or by the only run there is."""
    worst, best = gain if low is None else low, gain if high is None else high
    if objections or best < -EQUAL:
        return "lost"
    return "won" if worst > EQUAL else "tied"


def tallies_of(cases: Iterable[Case]) -> list[Tally]:
    """One per condition, metric, policy and baseline, in the order of the cases."""
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.condition, case.metric, case.policy, case.baseline), []).append(case)
    return [_tally(*key, members) for key, members in groups.items()]


def _tally(condition: str, metric: str, policy: str, baseline: str, cases: list[Case]) -> Tally:
    rooms = [case.room_closed_percent for case in cases if case.room_closed_percent is not None]
    worst = min(cases, key=lambda case: case.worst_gain)
    return Tally(
        condition=condition,
        metric=metric,
        policy=policy,
        baseline=baseline,
        traces_won=sum(case.verdict == "won" for case in cases),
        traces_lost=sum(case.verdict == "lost" for case in cases),
        traces_tied=sum(case.verdict == "tied" for case in cases),
        seeds_won=sum(case.seeds_won for case in cases),
        seeds_lost=sum(case.seeds_lost for case in cases),
        seeds_tied=sum(case.seeds_tied for case in cases),
        mean_gain=rounded(metric, sum(case.gain for case in cases) / len(cases), cases[0].mean),
        mean_room_closed_percent=round(sum(rooms) / len(rooms), 6) if len(rooms) == len(cases) else None,
        worst_trace=worst.trace,
        worst_load=worst.load,
        worst_seed=worst.worst_seed,
        worst_gain=worst.worst_gain,
    )
