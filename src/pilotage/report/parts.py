"""The part of the report about one trace and load: facts, summary table, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilotage.report.answer import cluster_words, headline
from pilotage.report.drawing import colour_of, place
from pilotage.report.figures import figures_of
from pilotage.report.gains import gains_table
from pilotage.report.markup import Cell, disclosure, table, text
from pilotage.report.metrics import METRICS, number, signed
from pilotage.report.section import Section

if TYPE_CHECKING:
    from pilotage.sim.compare import Row


def parts(sections: list[Section], titles: list[str]) -> str:
    """One part per section, the first one open; figures are drawn when a part is opened. `titles` are HTML."""
    found = [
        disclosure(
            f'<h3>{title}</h3><span class="aside">{headline(section)}</span>',
            _content(section, f"figure-{k}"),
            f"part-{k}",
            opened=k == 0,
        )
        for k, (section, title) in enumerate(zip(sections, titles, strict=True))
    ]
    return f"<h2>Trace by trace</h2>{''.join(found)}"


def _content(section: Section, prefix: str) -> str:
    pods = f"{number(len(section.trace.workload), 0)} pods in the trace"
    seeds = len(section.runs_of(section.policies[0]))
    facts = [cluster_words(section), pods, f"{seeds} seed{'s' if seeds > 1 else ''}"]
    if section.bound is not None:
        facts.append(f"packing bound {number(section.bound, 2)} %")
    drawings = [place(figure, f"{prefix}-{i}") for i, figure in enumerate(figures_of(section))]
    tables = _summary(section) + gains_table(section)
    return f'<p>{", ".join(facts)}.</p>{tables}<div class="figures">{"".join(drawings)}</div>'


def _summary(section: Section) -> str:
    bounded = bool(section.bounds)
    head = ["policy", *(METRICS[metric].heading for metric in section.metrics), *(["room closed"] if bounded else [])]
    rows = []
    for policy in section.policies:
        cells = [_figure_cell(section.rows.get((policy, metric))) for metric in section.metrics]
        room = section.row(policy).room_closed_percent
        cells += [Cell("&ndash;" if room is None else f"{number(room, 0)} %")] if bounded else []
        swatch = f'<i class="swatch" style="background:var({colour_of(section, policy)})"></i>'
        rows.append((f"{swatch}{text(policy)}", cells))
    if section.bound is not None:
        empty = [Cell("") for _ in section.metrics[1:]]
        rows.append(("packing bound", [Cell(number(section.bound, 2)), *empty, Cell("100 %")]))
    return (
        f"{table('summary', head, rows)}"
        '<p class="fine">Mean over the seeds &plusmn; 95 % interval; below it the difference to '
        f"{text(section.baseline)}, paired by seed. Grey: the interval of the difference includes zero.</p>"
    )


def _figure_cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("&ndash;")
    digits = METRICS[row.metric].digits
    html = number(row.mean, digits) + _plus_minus(row.mean, row.high, digits)
    if row.policy != row.baseline:
        low, high = row.difference_low, row.difference_high
        unclear = ' class="unclear"' if low is not None and high is not None and low <= 0 <= high else ""
        html += f"<small{unclear}>{signed(row.difference, digits)}{_plus_minus(row.difference, high, digits)}</small>"
    return Cell(html)


def _plus_minus(mean: float, high: float | None, digits: int) -> str:
    return "" if high is None else f" &plusmn;&nbsp;{number(high - mean, digits)}"
