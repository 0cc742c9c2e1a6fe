"""Answers of capacity planning, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pilotage.sim.planning import Plan, PlanSummary, summarise

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEGEND = "Nodes to add so that every pod gets a place. bound: what the resources alone ask for, whatever the policy."


def planning_table(plans: Sequence[Plan], title: str = "Nodes to add") -> RenderableType:
    """One line per policy: the number over seeds, and why there is none."""
    # As text: a file name may hold what rich takes for markup.
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("policy", no_wrap=True)
    for name in ("median", "min", "max", "bound", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    notes: list[RenderableType] = []
    for row in summarise(plans):
        numbers = (row.median, row.smallest, row.largest, row.lower_bound, row.seeds)
        table.add_row(row.policy, *("-" if number is None else f"{number:g}" for number in numbers))
        if row.unanswered:
            notes.append(Text(_note(row)))
    return Group(table, *notes, Text(_LEGEND))


def _note(row: PlanSummary) -> str:
    return f"{row.policy}, {row.unanswered} of {row.seeds} seed{'s' if row.seeds > 1 else ''}: {row.reason}."


def as_dict(plans: Sequence[Plan]) -> dict[str, list[dict[str, Any]]]:
    """For JSON: every plan, and the summary over seeds."""
    return {"plans": [asdict(plan) for plan in plans], "summary": [asdict(row) for row in summarise(plans)]}
