"""`report.html` of a real gang run: measured against predicted durations, shares, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pilotage import __version__
from pilotage.gang.record import Superstep
from pilotage.report.document import document
from pilotage.report.drawing import COLOURS, Figure, axis, place, shown_name
from pilotage.report.markup import Cell, table, text
from pilotage.workloads.files import replace_file


def write_run_report(figures: Mapping[str, object], steps: Sequence[Superstep], path: Path, command: str) -> None:
    replace_file(path, run_page(figures, steps, command).encode(errors="replace"))


def run_page(facts: Mapping[str, object], steps: Sequence[Superstep], command: str) -> str:
    """`facts` are the figures of the run, as `--json` prints them."""
    job, controller = str(facts["job"]), str(facts["controller"])
    measured, predicted = sum(s.seconds for s in steps), sum(s.predicted for s in steps)
    lost = sum(s.lost_seconds for s in steps)
    away = sum(s.interrupted_seconds for s in steps)
    words = f"{lost:,.1f} s lost by failures" + (f", {away:,.1f} s because the coordinator ended" if away else "")
    new = sum(s.divided for s in steps[1:])
    figures = [_durations(steps), _shares(steps), _tasks(steps)]
    body = "".join(
        [
            '<p class="kicker">Pilotage gang run</p>',
            f"<h1>{text(job)}: {len(steps)} supersteps in {measured:,.1f} s</h1>",
            f'<p class="lead">{text(controller)}, {new} new divisions, predicted {predicted:,.1f} s, '
            f"{words}.</p>{_beside(facts)}",
            f'<section><div class="figures">{"".join(place(f, f"figure-{n}") for n, f in enumerate(figures))}</div>',
            f"</section><section><h2>Failures</h2>{_failures(steps)}</section>",
            f'<section><h2>How this was made</h2><pre class="command"><code>{text(command)}</code></pre>'
            f"<p>pilotage {__version__}.</p></section>",
        ]
    )
    return document(f"Pilotage gang run: {text(job)}", body)


def _beside(facts: Mapping[str, object]) -> str:
    if "ratio" not in facts:
        return ""
    words = f"The run it is set against took {facts['against_seconds']} s for {facts['against_supersteps']} supersteps"
    return f'<p class="lead">{text(words)}: ratio {text(str(facts["ratio"]))}.</p>'


def _line(name: str, steps: Sequence[Superstep], values: Sequence[float], number: int, **more: Any) -> dict[str, Any]:
    own = {"color": f"--policy-{number % COLOURS}"} | more.pop("line", {})
    return {
        "type": "scatter",
        "mode": "lines",
        "name": shown_name(name),
        "x": [step.superstep for step in steps],
        "y": list(values),
        "line": own,
        **more,
    }


def _durations(steps: Sequence[Superstep]) -> Figure:
    traces = [
        _line("measured", steps, [s.seconds for s in steps], 0),
        _line("predicted", steps, [s.predicted for s in steps], 1),
    ]
    layout = {"xaxis": axis("superstep"), "yaxis": axis("seconds"), "hovermode": "x unified"}
    return Figure(
        "Measured and predicted durations",
        "Predicted by forecast sizes and the duration model.",
        traces,
        layout,
        wide=True,
    )


def _shares(steps: Sequence[Superstep]) -> Figure:
    """As steps: a share is the same until the next division."""
    shaped = {"stackgroup": "shares", "line": {"width": 0.5, "shape": "hv"}}
    traces = [
        _line(task, steps, [s.shares[task] / 1000 for s in steps], j, **shaped)
        for j, task in enumerate(steps[0].shares)
    ]
    return Figure("Shares", "CPU of the tasks.", traces, {"xaxis": axis("superstep"), "yaxis": axis("CPU")})


def _tasks(steps: Sequence[Superstep]) -> Figure:
    traces = [_line(task, steps, [s.task_seconds[task] for s in steps], j) for j, task in enumerate(steps[0].shares)]
    layout = {"xaxis": axis("superstep"), "yaxis": axis("seconds"), "hovermode": "x unified"}
    return Figure("Durations of the tasks", "The slowest decides.", traces, layout)


def _failures(steps: Sequence[Superstep]) -> str:
    rows = [
        (
            str(step.superstep),
            [Cell(text(event), note="text"), Cell(f"{step.lost_seconds + step.interrupted_seconds:.2f}")],
        )
        for step in steps
        for event in step.events
    ]
    return table("failures", ["superstep", "what", "lost s"], rows) if rows else "<p>None.</p>"
