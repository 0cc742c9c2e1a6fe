"""`report.html`: one self-contained file that opens from disk, without network.

The same results give the same bytes. A content security policy lets nothing run but the two scripts of the page, and
nothing load at all.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.report.answer import answer
from pilotage.report.markup import text
from pilotage.report.matrix import matrices
from pilotage.report.parts import parts
from pilotage.report.provenance import all_runs, provenance
from pilotage.report.section import Section, sections_of
from pilotage.workloads.files import replace_file

if TYPE_CHECKING:
    from pilotage.sim.compare import Outcome

_HERE = Path(__file__).parent


def write_report(outcome: Outcome, path: Path, command: str, verdicts: str = "") -> Path:
    # A file name may hold what is no text; the page must be written nevertheless.
    replace_file(path, page(outcome, command, verdicts).encode(errors="replace"))
    return path


def page(outcome: Outcome, command: str, verdicts: str = "") -> str:
    """The whole report as HTML; `verdicts` is a section of an evaluation."""
    from plotly.offline import get_plotlyjs

    sections = sections_of(outcome)
    titles = _titles(sections)
    scripts = [get_plotlyjs(), (_HERE / "page.js").read_text(encoding="utf-8")]
    style = (_HERE / "page.css").read_text(encoding="utf-8")
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
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_security(scripts)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Pilotage comparison: {names}</title><style>{style}</style></head>\n"
        f"<body><main>{body}</main>\n"
        '<noscript><p class="fine">Figures are drawn by a script inside this file.</p></noscript>\n'
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def _titles(sections: list[Section]) -> list[str]:
    """Names of sections as HTML that may break after an underscore; with the load where there are several."""
    several = len({section.load for section in sections}) > 1
    return [
        text(section.trace.name).replace("_", "_<wbr>")
        + (f', <span class="load">{section.load_words()}</span>' if several else "")
        for section in sections
    ]


def _security(scripts: list[str]) -> str:
    """Only scripts with these digests run, so that no text from outside can become one."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
