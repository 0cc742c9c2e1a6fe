"""What all figures share: their form, compact arrays, colours, names.

Figures are plain data for the drawing library. Colours are names of variables of the style sheet (`--policy-0`,
`--ink`): the page replaces them when it draws, so that one figure fits light, dark and paper.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotage.model.workload import FloatArray
from pilotage.report.markup import safe_json, text
from pilotage.report.section import Section

COLOURS = 8  # in the style sheet
LONGEST_NAME = 26  # letters of a policy's name in a figure


@dataclass(frozen=True)
class Figure:
    """A drawing with its title and what it shows, in words."""

    title: str
    caption: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 380
    wide: bool = False


def packed(values: npt.NDArray[Any]) -> dict[str, str]:
    """An array as the drawing library reads it at a third of the length of digits: float32 in base64."""
    array = np.ascontiguousarray(values, "<f4")
    written = {"dtype": "f4", "bdata": base64.b64encode(array.tobytes()).decode()}
    return written | ({"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {})


def colour_of(section: Section, policy: str) -> str:
    return f"--policy-{section.policies.index(policy) % COLOURS}"


def shown_name(policy: str) -> str:
    """Short enough for a legend, and safe: the drawing library reads tags in text."""
    short = policy if len(policy) <= LONGEST_NAME else f"{policy[: LONGEST_NAME - 1]}…"
    return escape(short, quote=True)


def axis(title: str, **more: object) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 10}, "automargin": True, **more}


def place(figure: Figure, name: str) -> str:
    """The place of a figure and, beside it, its data."""
    wide = ' class="wide"' if figure.wide else ""
    height = f"--height:{figure.height}px"
    title, caption = text(figure.title), text(figure.caption)
    data = safe_json({"data": figure.traces, "layout": figure.layout})
    return (
        f'<figure{wide}><figcaption><h4>{title}</h4><p class="fine">{caption}</p></figcaption>'
        f'<div class="plot" id="{name}" role="img" aria-label="{title}. {caption}" style="{height}"></div>'
        f'<script type="application/json" id="{name}-data">{data}</script></figure>'
    )


def band(place_L: FloatArray, low_L: FloatArray, high_L: FloatArray, colour: str, **more: str) -> dict[str, Any]:
    """The area between two curves, behind the lines."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(np.concatenate([place_L, place_L[::-1]])),
        "y": packed(np.concatenate([high_L, low_L[::-1]])),
        "fill": "toself",
        "fillcolor": colour,
        "opacity": 0.2,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        **more,
    }
