"""`report.html` of a comparison of policies. The same results give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.report.answer import answer
from pilotage.report.document import document
from pilotage.report.markup import text
from pilotage.report.matrix import matrices
from pilotage.report.parts import parts
from pilotage.report.provenance import all_runs, provenance
from pilotage.report.section import Section, sections_of
from pilotage.workloads.files import replace_file

if TYPE_CHECKING:
    from pilotage.sim.compare import Outcome


def write_report(outcome: Outcome, path: Path, command: str, verdicts: str = "") -> Path:
    # A file name may hold what is no text; the page must be written nevertheless.
    replace_file(path, page(outcome, command, verdicts).encode(errors="replace"))
    return path


def page(outcome: Outcome, command: str, verdicts: str = "") -> str:
    """The whole report as HTML; `verdicts` is a section of an evaluation."""
    sections = sections_of(outcome)
    titles = _titles(sections)
    names = ", ".join(text(trace.name) for trace in outcome.traces)
    body = "".join(
        [
            '<p class="kicker">Pilotage comparison</p>',
            answer(sections, titles, outcome.comparison.price),
            verdicts,
            f"<section>{matrices(sections, titles)}</section>",
            f"<section>{parts(sections, titles)}</section>",
            f"<section>{provenance(outcome, sections, command)}</section>",
            f"<section>{all_runs(outcome)}</section>",
        ]
    )
    return document(f"Pilotage comparison: {names}", body)


def _titles(sections: list[Section]) -> list[str]:
    """Names of sections as HTML that may break after an underscore; with the load where there are several."""
    several = len({section.load for section in sections}) > 1
    return [
        text(section.trace.name).replace("_", "_<wbr>")
        + (f', <span class="load">{section.load_words()}</span>' if several else "")
        for section in sections
    ]
