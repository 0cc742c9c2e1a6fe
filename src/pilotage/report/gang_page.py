"""`report.html` of a gang comparison: totals, regret to the bound, divisions and durations over time, sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pilotage import __version__
from pilotage.gang.monotone_durations import Choice
from pilotage.gang.problem import Budget
from pilotage.gang.runs import GangRun
from pilotage.gang.strategies import mean_totals
from pilotage.report.document import document
from pilotage.report.drawing import COLOURS, Figure, axis, packed, place, shown_name
from pilotage.report.gang_durations import durations_section
from pilotage.report.markup import Cell, disclosure, table, text
from pilotage.workloads.files import replace_file

FEW = 8  # strategies whose names stand beside each other below a small figure


@dataclass(frozen=True)
class GangOutcome:
    """All that a report tells."""

    name: str
    tasks: tuple[str, ...]
    budget: Budget
    runs: Sequence[GangRun]
    bound: float | None = None  # seconds that no division beats, without penalties
    sweeps: Mapping[str, Mapping[float, Mapping[str, float]]] = field(default_factory=dict)  # name, value, strategy
    durations: tuple[Choice, str] | None = None  # how well models predict, and which the job asks for


def write_gang_report(outcome: GangOutcome, path: Path, command: str) -> None:
    replace_file(path, gang_page(outcome, command).encode(errors="replace"))


def gang_page(outcome: GangOutcome, command: str) -> str:
    # Forecasts that come true are no rival: they show what better forecasts would bring.
    usual = outcome.runs[0].forecast
    totals = mean_totals([run for run in outcome.runs if run.forecast == usual])
    name = min(totals, key=lambda strategy: totals[strategy])
    best = next(run for run in outcome.runs if (run.strategy, run.forecast) == (name, usual))
    shown = list({(run.strategy, run.forecast): run for run in reversed(outcome.runs)}.values())[::-1]  # first seeds
    figures = [_totals(outcome), _durations(shown), *_sweeps(outcome)]
    body = "".join(
        [
            '<p class="kicker">Pilotage gang comparison</p>',
            f"<h1>{text(name)} takes {totals[name]:,.0f} s on {text(outcome.name)}</h1>",
            f'<p class="lead">{best.length} supersteps of {len(outcome.tasks)} tasks, {best.redivisions} new divisions'
            f" at {best.penalty:g} s each.</p>",
            f"<section><h2>Strategies</h2>{_table(outcome)}</section>",
            f'<section><div class="figures">{_placed(figures, "figure")}</div></section>',
            f"<section><h2>Divisions over time</h2>{_divisions(outcome, shown, best)}</section>",
            "" if outcome.durations is None else durations_section(*outcome.durations),
            f'<section><h2>How this was made</h2><pre class="command"><code>{text(command)}</code></pre>'
            f"<p>pilotage {__version__}.</p></section>",
        ]
    )
    return document(f"Pilotage gang comparison: {text(outcome.name)}", body)


def _placed(figures: Sequence[Figure], prefix: str) -> str:
    return "".join(place(figure, f"{prefix}-{number}") for number, figure in enumerate(figures))


def _table(outcome: GangOutcome) -> str:
    rows = []
    for run in outcome.runs:
        regret = "&ndash;" if outcome.bound is None else f"{100 * (run.total / outcome.bound - 1):.1f} %"
        cells = [run.forecast, run.rows, f"{run.penalty:g}", "" if run.seed is None else str(run.seed)]
        numbers = [f"{run.bare:,.1f}", str(run.redivisions), f"{run.total:,.1f}", regret]
        rows.append((text(run.strategy), [Cell(text(cell)) for cell in cells] + [Cell(cell) for cell in numbers]))
    head = ["strategy", "forecasts", "supersteps", "penalty", "seed", "bare s", "new divisions", "total s", "regret"]
    words = "Regret: how much more than exact divisions with perfect knowledge and without any penalty."
    if outcome.bound is not None:
        words += f" That bound is {outcome.bound:,.1f} s; with a penalty nothing reaches it."
    return f'{table("strategies", head, rows)}<p class="fine">{words}</p>'


def _colour(number: int) -> str:
    return f"--policy-{number % COLOURS}"


def _label(run: GangRun, runs: Sequence[GangRun]) -> str:
    """Name of the strategy; where there are several kinds of forecasts, with the others than the first."""
    return shown_name(run.strategy) + ("" if run.forecast == runs[0].forecast else f", {run.forecast}")


def _totals(outcome: GangOutcome) -> Figure:
    own: dict[str, list[GangRun]] = {}
    for run in outcome.runs:
        own.setdefault(_label(run, outcome.runs), []).append(run)
    bare = [float(np.mean([run.bare for run in runs])) for runs in own.values()]
    paid = [float(np.mean([run.total - run.bare for run in runs])) for runs in own.values()]
    labels = list(own)
    traces: list[dict[str, Any]] = [
        {"type": "bar", "name": "supersteps", "x": labels, "y": bare, "marker": {"color": _colour(0)}},
        {"type": "bar", "name": "new divisions", "x": labels, "y": paid, "marker": {"color": _colour(1)}},
    ]
    layout = {"barmode": "stack", "xaxis": axis(""), "yaxis": axis("seconds")}
    return Figure("Total time", "Lower is better; mean over seeds.", traces, layout, wide=len(labels) > FEW)


def _durations(runs: Sequence[GangRun]) -> Figure:
    """Running means, because supersteps differ more than strategies."""
    traces = []
    for number, run in enumerate(runs):
        width = max(1, run.length // 40)
        smooth_T = np.convolve(run.course.seconds_T, np.ones(width) / width, mode="valid")
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _label(run, runs),
                "x": packed(np.arange(len(smooth_T)) + run.first + width - 1),
                "y": packed(smooth_T),
                "line": {"color": _colour(number), "width": 1.5},
            }
        )
    layout = {"xaxis": axis("superstep"), "yaxis": axis("seconds"), "hovermode": "x unified"}
    return Figure("Duration of supersteps", "Running mean. Lower is better.", traces, layout, wide=True)


def _divisions(outcome: GangOutcome, runs: Sequence[GangRun], best: GangRun) -> str:
    """One below the other, all but that of the best strategy folded."""
    found = []
    for number, run in enumerate(runs):
        share_TJ = outcome.budget.least + outcome.budget.step * run.course.unit_TJ
        steps = np.arange(run.length) + run.first
        traces: list[dict[str, Any]] = [
            {
                "type": "scatter",
                "mode": "lines",
                "stackgroup": "shares",
                "name": shown_name(task),
                "x": packed(steps),
                "y": packed(share_TJ[:, j] / 1000),
                "line": {"color": _colour(j), "width": 0.5, "shape": "hv"},
            }
            for j, task in enumerate(outcome.tasks)
        ]
        new_T = steps[run.course.divided_T]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "new division",
                "x": packed(new_T),
                "y": packed(np.zeros(len(new_T))),
                "marker": {"color": "--ink", "size": 5, "symbol": "line-ns-open"},
                "hoverinfo": "x",
            }
        )
        layout = {"xaxis": axis("superstep"), "yaxis": axis("CPU"), "hovermode": "x unified"}
        figure = Figure(_label(run, runs), "Shares of the tasks, one above the other.", traces, layout, wide=True)
        title = f"<h3>{text(_label(run, runs))}</h3>"
        aside = f'<span class="aside">{run.redivisions} new divisions</span>'
        inside = f'<div class="figures">{place(figure, f"division-{number}")}</div>'
        found.append(disclosure(title + aside, inside, f"divisions-{number}", opened=run is best))
    return "".join(found)


def _sweeps(outcome: GangOutcome) -> list[Figure]:
    found = []
    for name, by_value in outcome.sweeps.items():
        strategies = dict.fromkeys(strategy for totals in by_value.values() for strategy in totals)
        traces = [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": shown_name(strategy),
                "x": [value for value, totals in by_value.items() if strategy in totals],
                "y": [totals[strategy] for totals in by_value.values() if strategy in totals],
                "line": {"color": _colour(number)},
            }
            for number, strategy in enumerate(strategies)
        ]
        layout = {"xaxis": axis(name), "yaxis": axis("total seconds")}
        found.append(Figure(f"Total time by {name}", "Lower is better; mean over seeds.", traces, layout))
    return found
