"""Which model of durations is used, how well it predicts, and within what measurements are expected."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from pilotage.gang.monotone_durations import Choice, interval_factor
from pilotage.gang.profiling import Spread
from pilotage.report.drawing import COLOURS, Figure, axis, band, packed, shown_name
from pilotage.report.gang_tables import new_table
from pilotage.report.markup import Cell, table, text

if TYPE_CHECKING:
    from rich.console import RenderableType

HEAD = ("task", "spline off by", "monotone off by", "95 % of tries within")


def durations_figures(choice: Choice, asked: str) -> dict[str, object]:
    """As JSON. Errors are root mean squares on the logarithmic scale, null where the grid is too small for a spline."""
    used = _used(choice, asked)
    return {
        "model": used,
        "asked": asked,
        "better": choice.name,
        "tasks": [
            {
                "task": own.task,
                "spline_error": round(own.spline, 6) if isfinite(own.spline) else None,
                "monotone_error": round(own.monotone, 6),
                "interval_factor": round(interval_factor(own.of(used)), 6) if isfinite(own.of(used)) else None,
            }
            for own in choice.by_task
        ],
    }


def durations_table(choice: Choice, asked: str) -> RenderableType:
    shown = new_table("Durations", *HEAD)
    for task, cells in _rows(choice, asked).items():
        shown.add_row(task, *cells)
    return Group(shown, Text(_words(choice, asked)))


def durations_section(choice: Choice, asked: str) -> str:
    rows = [(text(task), [Cell(cell) for cell in cells]) for task, cells in _rows(choice, asked).items()]
    return (
        f"<section><h2>Durations</h2>{table('durations', list(HEAD), rows)}"
        f'<p class="fine">{text(_words(choice, asked))}</p></section>'
    )


def durations_figure(choice: Choice, task: str, own: Spread) -> Figure:
    """Predicted seconds by share at the smallest, the middle and the largest size, with interval and measured means."""
    j = choice.model.tasks.index(task)
    factor = interval_factor(choice.by_task[j].of(choice.name))
    traces: list[dict[str, Any]] = []
    for number, s in enumerate(sorted({0, len(own.size_S) // 2, len(own.size_S) - 1})):
        seconds_C = choice.model.grid(j, own.size_S[s : s + 1], own.share_C)[0]
        colour, shares = f"--policy-{number % COLOURS}", packed(own.share_C)
        traces += [
            band(own.share_C, seconds_C / factor, seconds_C * factor, colour),
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"size {own.size_S[s]:g}",
                "x": shares,
                "y": packed(seconds_C),
                "line": {"color": colour},
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"size {own.size_S[s]:g}, measured",
                "x": shares,
                "y": packed(own.mean_SC[s]),
                "marker": {"color": colour, "size": 5},
                "showlegend": False,
            },
        ]
    words = f"Model {choice.name}; between the edges 95 % of measurements are expected. Points: means of the tries."
    layout = {"xaxis": axis("milli CPU"), "yaxis": axis("seconds", type="log")}
    return Figure(f"{shown_name(task)}: seconds and interval", words, traces, layout)


def _used(choice: Choice, asked: str) -> str:
    return choice.name if asked == "best" else asked


def _rows(choice: Choice, asked: str) -> Mapping[str, list[str]]:
    used = _used(choice, asked)
    return {
        own.task: [
            _percent(own.spline),
            _percent(own.monotone),
            _interval(own.of(used)),
        ]
        for own in choice.by_task
    }


def _interval(error: float) -> str:
    if not isfinite(error):
        return "-"
    factor = interval_factor(error)
    return f"{100 * (1 / factor - 1):.1f} to +{100 * (factor - 1):.1f} %"


def _percent(error: float) -> str:
    return f"{100 * error:.1f} %" if isfinite(error) else "-"


def _words(choice: Choice, asked: str) -> str:
    spline, monotone = _percent(choice.spline_error), _percent(choice.monotone_error)
    judged = f"by predicting lines of the profile that were left out: spline {spline}, monotone {monotone} off"
    if asked == "best":
        return f"Model: {choice.name}, chosen {judged}."
    if asked == choice.name:
        return f"Model: {asked}, as the job says, and the better one {judged}."
    return f"Model: {asked}, as the job says; {choice.name} would be better {judged} (durations: best)."
