"""Who won and who lost, for the terminal and for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from pilotage.report.markup import Cell, table, text
from pilotage.report.metrics import METRICS, signed
from pilotage.report.tables import CPU_COLUMNS, GPU_COLUMNS
from pilotage.sim.shift import AS_GIVEN

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.sim.evaluation import Evaluation
    from pilotage.sim.verdicts import Case, Tally

_LEGEND = (
    "won, lost: the 95 % interval of the paired gain lies above, below 0; a gain does not count where more is lost "
    "before L0, or more CPU-only or multi-GPU pods fail, than with the baseline. A positive gain is better.",
    "room: share of the way from FGD to the packing bound. lost, CPU, multi: percent lost before L0, failed CPU-only "
    "pods, failed multi-GPU pods; the policy's/the baseline's.",
)
_SHORT = GPU_COLUMNS | CPU_COLUMNS
_NUMBERS = ("gain", "room", "traces", "seeds", "lost", "CPU", "multi")
_NOTHING = ("-", "0/0")
_DIGITS = 2


def verdict_tables(evaluation: Evaluation) -> RenderableType:
    """For each policy trace by trace against the first baseline, then the count of wins and losses against each."""
    parts: list[RenderableType] = []
    for policy in dict.fromkeys(case.policy for case in evaluation.cases):
        for condition in evaluation.trial.conditions:
            wanted = (policy, condition.name, evaluation.baseline)
            cases = [c for c in evaluation.cases if (c.policy, c.condition, c.baseline) == wanted]
            title = f"{policy} against {evaluation.baseline}, {condition.name}"
            parts += [_case_table(title, cases), ""] if cases else []
        parts += [_tally_table(policy, [t for t in shown_tallies(evaluation) if t.policy == policy]), ""]
    return Group(*parts, *_LEGEND)


def shown_tallies(evaluation: Evaluation) -> list[Tally]:
    """All baselines as given; where things were changed, the first."""
    return [t for t in evaluation.tallies if t.condition == AS_GIVEN or t.baseline == evaluation.baseline]


def _case_table(title: str, cases: list[Case]) -> Table:
    head = ("trace", "by", "gain", "room", "seeds", "lost", "CPU", "multi", "verdict")
    return _table(title, head, [_case_cells(case) for case in cases])


def _case_cells(case: Case) -> tuple[str, ...]:
    lost = "-"
    if case.lost_before_l0_percent is not None and case.baseline_lost_before_l0_percent is not None:
        lost = f"{case.lost_before_l0_percent:.2f}/{case.baseline_lost_before_l0_percent:.2f}"
    return (
        case.trace + _at(case.load),
        _SHORT.get(case.metric, case.metric),
        _gain(case),
        "-" if case.room_closed_percent is None else f"{case.room_closed_percent:.0f} %",
        f"{case.seeds_won}:{case.seeds_lost}:{case.seeds_tied}",
        lost,
        f"{case.failed_cpu_pods:.0f}/{case.baseline_failed_cpu_pods:.0f}",
        f"{case.failed_multi_gpu_pods:.0f}/{case.baseline_failed_multi_gpu_pods:.0f}",
        "; ".join((case.verdict, *case.objections)),
    )


def _tally_table(policy: str, tallies: list[Tally]) -> Table:
    head = ("condition", "against", "by", "traces", "seeds", "gain", "room", "worst")
    rows = [(tally.condition, tally.baseline, *_tally_cells(tally)) for tally in tallies]
    return _table(f"{policy}: won:lost:tied", head, rows)


def _tally_cells(tally: Tally) -> tuple[str, ...]:
    room, digits = tally.mean_room_closed_percent, _digits(tally.metric)
    return (
        _SHORT.get(tally.metric, tally.metric),
        f"{tally.traces_won}:{tally.traces_lost}:{tally.traces_tied}",
        f"{tally.seeds_won}:{tally.seeds_lost}:{tally.seeds_tied}",
        signed(tally.mean_gain, digits),
        "-" if room is None else f"{room:.0f} %",
        f"{signed(tally.worst_gain, digits)} {tally.worst_trace}{_at(tally.worst_load)}, seed {tally.worst_seed}",
    )


def _at(load: float) -> str:
    return f" at {load:g}" if load else ""


def verdict_section(evaluation: Evaluation) -> str:
    """HTML for the report: the count of wins and losses. Conditions lead to reports of their own."""
    head = ["condition", "policy", "against", "by", "traces won:lost:tied", "seeds won:lost:tied", "mean gain", "room"]
    places = {condition.name: condition.slug for condition in evaluation.trial.conditions[1:]}
    rows = []
    for tally in shown_tallies(evaluation):
        name, cells = tally.condition, (tally.policy, tally.baseline, *_tally_cells(tally))
        link = f'<a href="{text(places[name])}/report.html">{text(name)}</a>' if name in places else text(name)
        rows.append((link, [Cell(text(cell)) for cell in cells]))
    notes = "".join(f'<p class="fine">{text(line)}</p>' for line in (*evaluation.trial.notes, *_LEGEND[:1]))
    return f"<section><h2>Wins and losses</h2>{table('wins and losses', [*head, 'worst'], rows)}{notes}</section>"


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """Columns that say nothing are left out: 80 characters are few."""
    made = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    kept = [k for k in range(len(head)) if any(row[k] not in _NOTHING for row in rows)]
    for k in kept:
        is_number = head[k] in _NUMBERS
        made.add_column(head[k], overflow="fold", justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        made.add_row(*(row[k] for k in kept))
    return made


def _gain(case: Case) -> str:
    digits = _digits(case.metric)
    half = "" if case.gain_high is None else f" ±{case.gain_high - case.gain:.{digits}f}"
    return signed(case.gain, digits) + half


def _digits(metric: str) -> int:
    return METRICS[metric].digits if metric in METRICS else _DIGITS
