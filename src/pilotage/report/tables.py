"""Tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from pilotage.report.gains import gain_words, gains_of
from pilotage.report.metrics import rounded
from pilotage.report.savings import HOURS_PER_YEAR, Saving, Verdict, best_of, money
from pilotage.report.section import Section, sections_of
from pilotage.sim.results import VARIANCES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.policies.explain import Explanation
    from pilotage.sim.compare import Outcome, Price, Row

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
    "memory_variance": "mem. var.",
    "nodes_used": "nodes",
    "failed_pods": "failed",
    "mean_wait": "wait s",
}
_DIGITS = {"failed_pods": 0, "gpu_weighted_wait": 0, "mean_wait": 0, "moved_pods": 0} | dict.fromkeys(VARIANCES, 5)
_WITH_INTERVAL = ("gpu_allocation_percent", "cpu_allocation_percent", "gpu_weighted_wait")  # 80 columns are few
_GIVE_WAY = ("lost_before_l0_percent", "failed_pods")
_LEGEND = (
    "±: 95 % interval over seeds, paired for differences.",
    "GPU: allocated. frag.: free, but of no use to typical pods. lost: asked for by pods refused early (before L0). "
    "room: share of the way from FGD to the packing bound. ±: 95 % interval over seeds, paired for differences.",
)  # without and with the packing bound


def summary_table(outcome: Outcome) -> RenderableType:
    """One table per trace and load: mean and 95 % interval, paired difference to the baseline, room closed."""
    parts: list[RenderableType] = []
    for section in sections_of(outcome):
        parts.append(_section_table(section))
        if _judged_by(section) == section.main_metric and (best := best_of(section)):
            parts.append(_answer(best, outcome.comparison.price if section.gpus else None))
        parts += [gain_words(gain) for gain in gains_of(section)]
        parts.append("")
    return Group(*parts, _LEGEND[1] if outcome.bounds else _LEGEND[0])


def _judged_by(section: Section) -> str:
    """What the difference is about: where every policy placed everything, only how evenly it did so."""
    same = all(section.row(policy).difference == 0 for policy in section.policies)
    return "cpu_variance" if not section.gpus and same else section.main_metric


def _section_table(section: Section) -> Table:
    columns, judged_by = _columns_of(section), _judged_by(section)
    table = Table(title=_title(section), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("policy", overflow="fold")  # the one that gives way where there is little room
    for name in (*columns.values(), "difference", *(["room"] if section.bounds else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for policy in section.policies:
        own = section.row(policy)
        known = [section.rows.get((policy, metric)) for metric in columns]
        cells = ["-" if row is None else _interval(row) for row in known]
        table.add_row(
            policy, *cells, _difference(section.row(policy, judged_by)), *([_room(own)] if section.bounds else [])
        )
    return table


def _columns_of(section: Section) -> dict[str, str]:
    """Metrics worth a column, the one that differences are about first; others give way to what a run is about."""
    known = GPU_COLUMNS if section.gpus else CPU_COLUMNS
    found = {metric: name for metric, name in known.items() if metric in {metric for _, metric in section.rows}}
    special = "moved_pods" in found or "gang_distance" in found
    return {metric: name for metric, name in found.items() if not special or metric not in _GIVE_WAY}


def _title(section: Section) -> str:
    bound = "" if section.bound is None else f", packing bound {section.bound:.2f} %"
    at = f"load {section.load:g}" if section.load else "load of the trace"
    seeds = len({run.seed for run in section.runs})
    return f"{section.trace.name}: {section.protocol}, {at}, {seeds} seed{'s' if seeds > 1 else ''}{bound}"


def _answer(best: Saving, price: Price | None) -> str:
    """The operator's question, in a sentence."""
    if best.verdict is Verdict.UNCLEAR or best.verdict is Verdict.SAME:
        return f"No difference between {best.policy} and {best.baseline} can be told from these seeds."
    spread = "one run" if best.low is None else f"95 %: {best.low:,.0f} to {best.high:,.0f}"
    words = f"{best.policy} would have kept {best.amount:,.0f} {best.unit} more busy than {best.baseline} ({spread})"
    if price is None:
        return f"{words}."
    year = money(best, price, HOURS_PER_YEAR)
    return f"{words}, worth {rounded(year.amount)} {price.unit}".rstrip() + " a year."


def _interval(row: Row) -> str:
    digits = _DIGITS.get(row.metric, 2)
    if row.high is None or row.metric not in _WITH_INTERVAL:
        return f"{row.mean:.{digits}f}"
    return f"{row.mean:.{digits}f} ±{row.high - row.mean:.{digits}f}"


def _difference(row: Row) -> str:
    if row.policy == row.baseline:
        return "baseline"
    digits = max(_DIGITS.get(row.metric, 2), 2)
    if row.difference_low is None or row.difference_high is None:
        return f"{row.difference:+.{digits}f}"
    return f"{row.difference:+.{digits}f} ±{row.difference_high - row.difference:.{digits}f}"


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
