"""Policies x traces: heat-coloured tables of what is allocated and how it differs from the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotage.report.markup import Cell, table, text
from pilotage.report.metrics import METRICS, number, signed
from pilotage.report.section import Section


def matrices(sections: Sequence[Section], titles: Sequence[str]) -> str:
    """Allocation, its difference to the baseline, and waiting where it was measured. `titles` are HTML."""
    policies = list(dict.fromkeys(policy for section in sections for policy in section.policies))
    head = ["policy", *titles]
    values = _grid(sections, policies, lambda section, policy: _mean(section, policy, section.main_metric))
    blocks = [
        _block(
            "Allocated, % of capacity",
            table("allocated, % of capacity", head, _within_columns(policies, values, 2, better=1)),
            "Mean over the seeds. Colour: within a column, from the lowest (pale) to the highest.",
        )
    ]
    if len(policies) > 1:
        blocks.append(
            _block(
                f"Difference to {text(sections[0].baseline)}, percentage points",
                table("difference to the baseline, percentage points", head, _differences(sections, policies)),
                "Paired by seed, &plusmn; 95 % interval. Blue: more than the baseline; orange: less. "
                "Grey: the interval includes zero.",
            )
        )
    wait = "gpu_weighted_wait"
    if all(wait in section.metrics for section in sections):
        waits = _grid(sections, policies, lambda section, policy: _mean(section, policy, wait))
        blocks.append(
            _block(
                METRICS[wait].heading,
                table("waiting time", head, _within_columns(policies, waits, METRICS[wait].digits, better=-1)),
                "Mean over the seeds. Colour: within a column, from the longest (pale) to the shortest.",
            )
        )
    return f'<h2>Policies and traces</h2><div class="side">{"".join(blocks)}</div>'


def _block(title: str, content: str, note: str) -> str:
    return f'<div><h3>{title}</h3>{content}<p class="fine">{note}</p></div>'


Rows = list[tuple[str, list[Cell]]]
Value = float | None


def _grid(
    sections: Sequence[Section], policies: Sequence[str], value: Callable[[Section, str], Value]
) -> list[list[Value]]:
    return [[value(section, policy) for section in sections] for policy in policies]


def _mean(section: Section, policy: str, metric: str) -> Value:
    row = section.rows.get((policy, metric))
    return None if row is None else row.mean


def _within_columns(policies: Sequence[str], values: list[list[Value]], digits: int, better: int) -> Rows:
    """Heat 0..1 by the place between the lowest and the highest value of the column."""
    columns = [[value for value in column if value is not None] for column in zip(*values, strict=True)]

    def cell(value: Value, column: list[float]) -> Cell:
        if value is None:
            return Cell("&ndash;")
        low, high = min(column), max(column)
        place = (value - low) / (high - low) if high > low else 0.0
        return Cell(number(value, digits), place if better > 0 else 1 - place)

    return [
        (text(policy), [cell(value, column) for value, column in zip(own, columns, strict=True)])
        for policy, own in zip(policies, values, strict=True)
    ]


def _differences(sections: Sequence[Section], policies: Sequence[str]) -> Rows:
    """Heat -1..1, one scale for the whole table."""
    rows = [[section.rows.get((policy, section.main_metric)) for section in sections] for policy in policies]
    most = max((abs(row.difference) for own in rows for row in own if row), default=0.0) or 1.0
    result: Rows = []
    for policy, own in zip(policies, rows, strict=True):
        cells = []
        for row in own:
            if row is None:
                cells.append(Cell("&ndash;"))
            elif policy == row.baseline:
                cells.append(Cell("baseline", note="unclear"))
            else:
                half = "" if row.difference_high is None else number(row.difference_high - row.difference, 2)
                html = signed(row.difference, 2) + (f"<small>&plusmn; {half}</small>" if half else "")
                low, high = row.difference_low, row.difference_high
                unclear = low is not None and high is not None and low <= 0 <= high
                cells.append(Cell(html, note="unclear") if unclear else Cell(html, row.difference / most))
        result.append((text(policy), cells))
    return result
