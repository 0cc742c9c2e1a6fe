"""Pieces of HTML. What comes from outside passes through `text` or `safe_json`, nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import NamedTuple


def text(value: str) -> str:
    """Text as HTML, also inside quoted attributes."""
    return escape(value, quote=True)


def safe_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    dense = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return dense.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


class Cell(NamedTuple):
    """A table cell: HTML and, for heat maps, how far it is coloured (-1..1)."""

    html: str
    heat: float | None = None
    note: str = ""  # a class of the style sheet


def table(label: str, head: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]]) -> str:
    """A table that scrolls inside its own box. `label` and `head` and the first of each row are HTML."""
    columns = "".join(f'<th scope="col">{title}</th>' for title in head)
    body = "".join(f'<tr><th scope="row">{first}</th>{"".join(map(_cell, cells))}</tr>' for first, cells in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>'
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    note = f' class="{cell.note}"' if cell.note else ""
    if cell.heat is None:
        return f"<td{note}>{cell.html}</td>"
    side = "warm" if cell.heat < 0 else "cool"
    return f'<td class="heat {side} {cell.note}" style="--heat:{abs(cell.heat):.3f}">{cell.html}</td>'


def disclosure(summary: str, content: str, anchor: str, *, opened: bool) -> str:
    state = " open" if opened else ""
    return f'<details id="{anchor}"{state}><summary>{summary}</summary><div class="inside">{content}</div></details>'
