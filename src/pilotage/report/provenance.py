"""How a report was made: command, versions, traces, protocol, the meaning of every term, and all runs."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from pilotage import __version__
from pilotage.report.document import drawing_version
from pilotage.report.markup import Cell, disclosure, table, text
from pilotage.report.metrics import BOUND_TERMS, METRICS, TERMS, number
from pilotage.report.section import Section

if TYPE_CHECKING:
    from pilotage.sim.compare import Comparison, Outcome

LIBRARIES = ("numpy", "numba", "highspy")
_LEFT_OUT = ("protocol", "fragmentation_idle_percent", "gpu_variance")  # of the table of all runs: it is wide enough
_PROTOCOLS = {
    "openb": "Pods come one at a time, in an order drawn from the seed, until the load is reached; a pod that fits"
    " nowhere is refused for good and nothing leaves (the published OpenB protocol).",
    "timed": "Pods come, run for their duration and leave; a pod that fits nowhere waits and is tried again. Figures"
    " are means over the time from the warm-up to the last arrival.",
}


def provenance(outcome: Outcome, sections: list[Section], command: str) -> str:
    """The part about how the report was made."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    versions = f"pilotage {__version__}, Python {platform.python_version()}, {libraries}, plotly.js {drawing_version()}"
    rows = [(text(t.name), [Cell(f"<code>{t.digest}</code>", note="text")]) for t in outcome.traces]
    return (
        f'<h2>How this was made</h2><pre class="command"><code>{text(command)}</code></pre>'
        f"<p>{text(versions)}. {_protocol(outcome.comparison)}</p>"
        f"{table('traces', ['trace', 'sha256 of its content'], rows)}"
        f"<h3>What the terms mean</h3>{_glossary(sections)}"
    )


def _protocol(comparison: Comparison) -> str:
    seeds = ", ".join(map(str, comparison.seeds))
    words = [_PROTOCOLS[comparison.protocol], f"Seeds: {seeds}."]
    timing = comparison.timing
    if comparison.protocol == "timed":
        words.append(f"Warm-up: {number(100 * timing.warm_up, 0)} % of the arrivals' time.")
        if timing.arrivals is not None:
            words.append(f"{number(timing.arrivals, 0)} pods drawn.")
        if timing.mtbf_hours is not None:
            words.append(f"Nodes fail every {timing.mtbf_hours:g} h on average, for {timing.mttr_hours:g} h.")
    moving = comparison.consolidation
    if moving is not None:
        every = "" if moving.every_hours is None else f", every {moving.every_hours:g} h"
        words.append(f"Consolidation by {moving.method}: at most {100 * moving.budget:g} % of the running pods{every}.")
    if comparison.price is not None:
        words.append(f"A GPU hour costs {comparison.price.per_gpu_hour:g} {comparison.price.unit}".rstrip() + ".")
    return text(" ".join(words))


def _glossary(sections: list[Section]) -> str:
    shown = dict.fromkeys(metric for section in sections for metric in section.metrics)
    terms = TERMS | (BOUND_TERMS if any(section.bounds for section in sections) else {})
    terms = terms | {METRICS[metric].name: METRICS[metric].meaning for metric in shown}
    entries = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>" for term, meaning in terms.items())
    return f"<dl>{entries}</dl>"


def all_runs(outcome: Outcome) -> str:
    """A folded table with a row per run."""
    figures = [run.figures() for run in outcome.runs]
    measured = [key for key in figures[0] if any(entry[key] is not None for entry in figures)]
    keys = [key for key in measured if key not in ("trace", *_LEFT_OUT)]
    head = ["trace", *(METRICS[key].heading if key in METRICS else text(key.replace("_", " ")) for key in keys)]
    rows = [(text(str(entry["trace"])), [_run_cell(key, entry[key]) for key in keys]) for entry in figures]
    content = table("all runs", head, rows)
    return disclosure(f"<h2>All {len(rows)} runs</h2>", content, "runs", opened=False)


def _run_cell(key: str, value: object) -> Cell:
    if value is None:
        return Cell("&ndash;")
    if isinstance(value, float) and key in METRICS:
        return Cell(number(value, METRICS[key].digits))
    return Cell(text(f"{value:g}" if isinstance(value, float) else str(value)), note="text" if key == "policy" else "")
