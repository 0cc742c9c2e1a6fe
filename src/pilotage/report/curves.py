"""Allocation and fragmentation on the way. Axes: L points of a curve, K seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pilotage.model.workload import FloatArray
from pilotage.report.drawing import COLOURS, Figure, axis, band, colour_of, packed, shown_name
from pilotage.report.section import Section
from pilotage.sim.results import Curve

POINTS = 200  # of a curve whose seeds have grids of their own
_DASHES = ("solid", "dash", "dot", "dashdot")  # a colour that comes again gets another dash


def curves(section: Section) -> list[Figure]:
    """Allocation and fragmentation on the way, of the policies that have curves."""
    known = {p: [run.curve for run in section.runs_of(p) if run.curve is not None] for p in section.policies}
    measured = {policy: own for policy, own in known.items() if own}
    if not section.gpus or not measured:
        return []
    found = []
    for column, title in (("allocation_L", "GPU allocated"), ("fragmentation_L", "GPU fragmented")):
        lines = {p: [_points(curve, column) for curve in own] for p, own in measured.items()}
        grid_L = _common_grid([line for own in lines.values() for line in own])
        if grid_L is not None:
            values = {p: np.array([np.interp(grid_L, *line) for line in own]) for p, own in lines.items()}
            found.append(_curve_figure(section, title, grid_L, values))
    return found


Line = tuple[FloatArray, FloatArray]


def _points(curve: Curve, column: str) -> Line:
    y_L: FloatArray = getattr(curve, column)
    there = ~np.isnan(y_L)
    return curve.x_L[there], y_L[there]


def _common_grid(lines: Sequence[Line]) -> FloatArray | None:
    """Where every line has values: its own points where all agree, else evenly spaced ones."""
    if any(len(x) < 2 for x, _ in lines):
        return None
    first = lines[0][0]
    if all(np.array_equal(first, x) for x, _ in lines):
        return first
    start, end = max(float(x[0]) for x, _ in lines), min(float(x[-1]) for x, _ in lines)
    return np.linspace(start, end, POINTS) if start < end else None


def _curve_figure(section: Section, title: str, grid_L: FloatArray, values: dict[str, FloatArray]) -> Figure:
    openb = section.protocol == "openb"
    allocated = title == "GPU allocated"
    traces = [trace for policy, own_KL in values.items() for trace in _curve(section, policy, grid_L, own_KL)]
    if allocated:
        traces += _limits(section, grid_L)
    start = _parting(grid_L, values) if openb else None
    layout: dict[str, Any] = {
        "xaxis": axis("arrived GPU requests, % of capacity" if openb else "hours of the measured time"),
        "yaxis": axis("% of GPU capacity"),
        "hovermode": "x unified",
    }
    if start is not None:
        layout["xaxis"]["range"] = [start, float(grid_L[-1])]
        layout["yaxis"]["range"] = _shown_range(section if allocated else None, grid_L >= start, values)
    words = {
        True: "Higher is better." + (" Dotted: all that arrived." if openb else ""),
        False: "Free GPU that typical pods cannot use. Lower is better.",
    }[allocated]
    seeds = next(iter(values.values())).shape[0]
    band = f" Line: mean of {seeds} seeds; band: lowest to highest seed." if seeds > 1 else ""
    part = " Shown from where the policies part; double-click for all." if start is not None else ""
    return Figure(f"{title} over {'arrived load' if openb else 'time'}", words + band + part, traces, layout)


def _curve(section: Section, policy: str, grid_L: FloatArray, own_KL: FloatArray) -> list[dict[str, Any]]:
    colour = colour_of(section, policy)
    dash = _DASHES[section.policies.index(policy) // COLOURS % len(_DASHES)]
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": shown_name(policy),
        "legendgroup": shown_name(policy),
        "x": packed(grid_L),
        "y": packed(own_KL.mean(axis=0)),
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertemplate": "%{y:.2f} %",
    }
    if len(own_KL) < 2:
        return [line]
    low_L, high_L = own_KL.min(axis=0), own_KL.max(axis=0)
    return [band(grid_L, low_L, high_L, colour, legendgroup=shown_name(policy)), line]


def _limits(section: Section, grid_L: FloatArray) -> list[dict[str, Any]]:
    """What arrived, which nothing can exceed, and the packing bound."""
    ends = [float(grid_L[0]), float(grid_L[-1])]
    lines = []
    if section.protocol == "openb":
        most = min(100.0, ends[1])
        lines.append({"name": "arrived", "x": [ends[0], most], "y": [ends[0], most], "dash": "dot"})
    if section.bound is not None:
        lines.append({"name": "packing bound", "x": ends, "y": [section.bound] * 2, "dash": "dash"})
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": line["name"],
            "x": line["x"],
            "y": line["y"],
            "line": {"color": "--muted", "width": 1.5, "dash": line["dash"]},
            "hoverinfo": "skip",
        }
        for line in lines
    ]


def _parting(grid_L: FloatArray, values: dict[str, FloatArray]) -> float | None:
    """Where the policies begin to differ, a little before; None where that is most of the way, or never."""
    mean_L = np.array([own_KL.mean(axis=0) for own_KL in values.values()])
    spread_L = mean_L.max(axis=0) - mean_L.min(axis=0)
    if len(values) < 2 or not spread_L.max():
        return None
    x = float(grid_L[np.argmax(spread_L > 0.2 * spread_L.max())])
    length = float(grid_L[-1] - grid_L[0])
    start = x - 0.06 * length
    return start if start > grid_L[0] + 0.25 * length else None


def _shown_range(bounded: Section | None, shown_L: npt.NDArray[np.bool_], values: dict[str, FloatArray]) -> list[float]:
    shown = np.concatenate([own_KL[:, shown_L].ravel() for own_KL in values.values()])
    low, high = float(shown.min()), float(shown.max())
    if bounded is not None and bounded.bound is not None:
        high = max(high, bounded.bound)
    margin = 0.08 * (high - low) or 1.0
    return [low - margin, high + margin]
