"""Tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.policies.explain import Explanation
    from pilotage.sim.compare import Outcome, Row

GPU_COLUMNS = {
    "gpu_allocation_percent": "GPU %",
    "fragmentation_percent": "frag. %",
    "failed_pods": "failed",
    "lost_before_l0_percent": "lost %",
    "gpu_weighted_wait": "GPU wait s",
    "gang_distance": "distance",
    "moved_pods": "moved",
}
CPU_COLUMNS = {
    "cpu_allocation_percent": "CPU %",
    "memory_allocation_percent": "mem. %",
    "cpu_variance": "CPU var.",
    "nodes_used": "nodes",
    "failed_pods": "failed",
    "mean_wait": "wait s",
}
_DIGITS = {"failed_pods": 0, "gpu_weighted_wait": 0, "mean_wait": 0, "cpu_variance": 5, "moved_pods": 0}
_WITH_INTERVAL = ("gpu_allocation_percent", "cpu_allocation_percent", "gpu_weighted_wait")  # 80 columns are few
_LEGEND = (
    "±: 95 % interval over seeds, paired for differences.",
    "GPU: allocated. frag.: free, but of no use to typical pods. lost: asked for by pods refused early (before L0). "
    "room: share of the way from FGD to the packing bound. ±: 95 % interval over seeds, paired for differences.",
)  # without and with the packing bound


def columns_of(outcome: Outcome, trace: str) -> dict[str, str]:
    """Metrics worth showing for a trace, the one that differences are about first, with their short names."""
    has_gpus = any(node.gpu_count for t in outcome.traces if t.name == trace for node in t.nodes)
    measured = {row.metric for row in outcome.summary if row.trace == trace}
    known = GPU_COLUMNS if has_gpus else CPU_COLUMNS
    return {metric: name for metric, name in known.items() if metric in measured}


def summary_table(outcome: Outcome) -> RenderableType:
    """One table per trace and load: mean and 95 % interval, paired difference to the baseline, room closed."""
    tables: list[RenderableType] = []
    for trace, load in dict.fromkeys((row.trace, row.load) for row in outcome.summary):
        rows = {(row.policy, row.metric): row for row in outcome.summary if (row.trace, row.load) == (trace, load)}
        policies = list(dict.fromkeys(policy for policy, _ in rows))
        columns = columns_of(outcome, trace)
        first = rows[policies[0], next(iter(columns))]
        title = _title(outcome, trace, load)
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
        table.add_column("policy", no_wrap=True)
        for name in columns.values():
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("difference", justify="right", no_wrap=True)
        if outcome.bounds:
            table.add_column("room", justify="right", no_wrap=True)
        for policy in policies:
            own = rows[policy, first.metric]
            cells = [_interval(rows[policy, metric]) if (policy, metric) in rows else "-" for metric in columns]
            table.add_row(policy, *cells, _difference(own), *([_room(own)] if outcome.bounds else []))
        tables.append(table)
    return Group(*tables, _LEGEND[1] if outcome.bounds else _LEGEND[0])


def _title(outcome: Outcome, trace: str, load: float) -> str:
    comparison = outcome.comparison
    seeds = len(comparison.seeds)
    here = [bound.bound_percent for (name, at, _), bound in outcome.bounds.items() if (name, at) == (trace, load)]
    bounds = [bound for bound in here if bound]
    bound = f", packing bound {sum(bounds) / len(bounds):.2f} %" if bounds else ""
    at = f"load {load:g}" if load else "load of the trace"
    return f"{trace}: {comparison.protocol}, {at}, {seeds} seed{'s' if seeds > 1 else ''}{bound}"


def _interval(row: Row) -> str:
    digits = _DIGITS.get(row.metric, 2)
    if row.high is None or row.metric not in _WITH_INTERVAL:
        return f"{row.mean:.{digits}f}"
    return f"{row.mean:.{digits}f} ±{row.high - row.mean:.{digits}f}"


def _difference(row: Row) -> str:
    if row.policy == row.baseline:
        return "baseline"
    if row.difference_low is None or row.difference_high is None:
        return f"{row.difference:+.2f}"
    return f"{row.difference:+.2f} ±{row.difference_high - row.difference:.2f}"


def _room(row: Row) -> str:
    return "-" if row.room_closed_percent is None else f"{row.room_closed_percent:.0f} %"


def explanation_table(explanation: Explanation, top: int) -> RenderableType:
    """One decision for people: what was filtered out, the best candidates, the verdict."""
    title = f"{explanation.pod} ({explanation.request}) by {explanation.policy}"
    filtered = Table("filtered out because", "nodes", title=title, title_justify="left")
    for reason, count in explanation.filtered.items():
        filtered.add_row(reason, str(count))
    candidates = Table("rank", "candidate", "total", title="Candidates, best first", title_justify="left")
    parts = list(explanation.candidates[0].scores) if explanation.candidates else []
    for part in parts:
        candidates.add_column(f"{part}: score, weighed", justify="right")
    for candidate in explanation.candidates[:top]:
        scores = [f"{raw:g}, {weighed:g}" for raw, weighed in candidate.scores.values()]
        candidates.add_row(str(candidate.rank), candidate.node, f"{candidate.total:g}", *scores)
    left_out = len(explanation.candidates) - top
    lines: list[RenderableType] = []
    lines += [filtered] if explanation.filtered else [title]
    lines += [candidates] if explanation.candidates else []
    lines += [f"... and {left_out} more candidates"] if left_out > 0 else []
    lines.append(f"Verdict: {explanation.verdict}.")
    if explanation.devices:
        lines.append(f"Devices: {', '.join(map(str, explanation.devices))}.")
    return Group(*lines)
