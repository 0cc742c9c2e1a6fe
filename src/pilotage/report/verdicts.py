"""Who won and who lost, for the terminal and for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from pilotage.report.markup import Cell, table, text
from pilotage.report.metrics import METRICS, signed
from pilotage.sim.shift import AS_GIVEN

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.sim.evaluation import Evaluation
    from pilotage.sim.verdicts import Case, Tally

_LEGEND = (
    "won, lost: the 95 % interval of the paired gain lies above, below 0; a gain does not count (objection) where more "
    "is lost before L0, or more CPU-only or multi-GPU pods fail, than with the baseline. A positive gain is better.",
    "room: share of the way from FGD to the packing bound. lost, CPU, multi: percent lost before L0, failed CPU-only "
    "pods, failed multi-GPU pods; the policy's and the baseline's.",
)
_DIGITS = 2


def verdict_tables(evaluation: Evaluation) -> RenderableType:
    """Trace by trace against the first baseline, then the count of wins and losses against each."""
    first = [case for case in evaluation.cases if case.baseline == evaluation.baseline]
    parts: list[RenderableType] = []
    for condition in evaluation.trial.conditions:
        cases = [case for case in first if case.condition == condition.name]
        parts += [_case_table(f"{condition.name}, against {evaluation.baseline}", cases), ""] if cases else []
    parts += [_tally_table(shown_tallies(evaluation)), "", *_LEGEND]
    return Group(*parts)


def shown_tallies(evaluation: Evaluation) -> list[Tally]:
    """All baselines as given; where things were changed, the first."""
    return [t for t in evaluation.tallies if t.condition == AS_GIVEN or t.baseline == evaluation.baseline]


def _case_table(title: str, cases: list[Case]) -> Table:
    made = _table(title, ("trace", "policy", "by"), ("gain", "room", "seeds", "lost", "CPU", "multi"), ("verdict",))
    for case in cases:
        made.add_row(*_case_cells(case))
    return made


def _case_cells(case: Case) -> tuple[str, ...]:
    at = f" at {case.load:g}" if case.load else ""
    lost = "-"
    if case.lost_before_l0_percent is not None and case.baseline_lost_before_l0_percent is not None:
        lost = f"{case.lost_before_l0_percent:.2f}/{case.baseline_lost_before_l0_percent:.2f}"
    return (
        f"{case.trace}{at}",
        case.policy,
        _metric_name(case.metric),
        _gain(case),
        "-" if case.room_closed_percent is None else f"{case.room_closed_percent:.0f} %",
        f"{case.seeds_won}:{case.seeds_lost}" + (f" ={case.seeds_tied}" if case.seeds_tied else ""),
        lost,
        f"{case.failed_cpu_pods:.0f}/{case.baseline_failed_cpu_pods:.0f}",
        f"{case.failed_multi_gpu_pods:.0f}/{case.baseline_failed_multi_gpu_pods:.0f}",
        "; ".join((case.verdict, *case.objections)),
    )


def _tally_table(tallies: list[Tally]) -> Table:
    made = _table(
        "wins and losses",
        ("condition", "policy", "against", "by"),
        ("traces won:lost:tied", "seeds won:lost:tied", "mean gain", "room"),
        ("worst",),
    )
    for tally in tallies:
        made.add_row(*tally_cells(tally))
    return made


def tally_cells(tally: Tally) -> tuple[str, ...]:
    room = tally.mean_room_closed_percent
    at = f" at {tally.worst_load:g}" if tally.worst_load else ""
    digits = _digits(tally.metric)
    return (
        tally.condition,
        tally.policy,
        tally.baseline,
        _metric_name(tally.metric),
        f"{tally.traces_won}:{tally.traces_lost}:{tally.traces_tied}",
        f"{tally.seeds_won}:{tally.seeds_lost}:{tally.seeds_tied}",
        signed(tally.mean_gain, digits),
        "-" if room is None else f"{room:.0f} %",
        f"{signed(tally.worst_gain, digits)} on {tally.worst_trace}{at}, seed {tally.worst_seed}",
    )


def verdict_section(evaluation: Evaluation) -> str:
    """HTML for the report: the count of wins and losses. Conditions lead to reports of their own."""
    head = ["condition", "policy", "against", "by", "traces won:lost:tied", "seeds won:lost:tied", "mean gain", "room"]
    places = {condition.name: condition.slug for condition in evaluation.trial.conditions[1:]}
    rows = []
    for tally in shown_tallies(evaluation):
        name, *cells = tally_cells(tally)
        link = f'<a href="{text(places[name])}/report.html">{text(name)}</a>' if name in places else text(name)
        rows.append((link, [Cell(text(cell)) for cell in cells]))
    notes = "".join(f'<p class="fine">{text(line)}</p>' for line in (*evaluation.trial.notes, *_LEGEND[:1]))
    return f"<section><h2>Wins and losses</h2>{table('wins and losses', [*head, 'worst'], rows)}{notes}</section>"


def _table(title: str, names: tuple[str, ...], numbers: tuple[str, ...], last: tuple[str, ...]) -> Table:
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for name in names:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right")
    for name in last:
        made.add_column(name, overflow="fold")
    return made


def _gain(case: Case) -> str:
    digits = _digits(case.metric)
    half = "" if case.gain_high is None else f" ±{case.gain_high - case.gain:.{digits}f}"
    return signed(case.gain, digits) + half


def _digits(metric: str) -> int:
    return METRICS[metric].digits if metric in METRICS else _DIGITS


def _metric_name(metric: str) -> str:
    return METRICS[metric].name if metric in METRICS else metric
