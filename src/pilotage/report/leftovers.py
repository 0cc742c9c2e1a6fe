"""The heat map of what is left: one strip per policy, nodes from left to right, devices and CPU from top to bottom.

Axes: N nodes, D devices, C columns of the figure (one or several nodes of one GPU model).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pilotage.model.workload import FloatArray, IntArray
from pilotage.report.drawing import Figure, axis, packed, shown_name
from pilotage.report.section import Section
from pilotage.sim.results import Leftover
from pilotage.workloads.trace import Trace

MOST_COLUMNS = 600
NO_GPU = "no GPU"
_GAP = 2.2  # rows between strips, room for the policy's name
_CPU_GAP = 0.35
_ROW_PIXELS = {True: 9, False: 20}  # with many rows, with few


class Columns(NamedTuple):
    """Nodes of one model lie side by side; wide clusters share columns."""

    model_N: IntArray  # number of the node's model in `models`
    models: list[str]
    widths: list[int]  # columns of each model


def leftovers(section: Section) -> Figure | None:
    """None where no run kept its final state."""
    found = {
        policy: run.leftover
        for policy in section.policies
        for run in section.runs_of(policy)
        if run.leftover is not None
    }
    if not found:
        return None
    columns = columns_of(section.trace)
    D = max((node.gpu_count for node in section.trace.nodes), default=0)
    traces: list[dict[str, Any]] = []
    names = []
    top = 0.0
    for policy, leftover in found.items():
        names.append(_strip_name(policy, top))
        for kind, strip in strips(leftover, columns, D).items():
            if len(strip):
                traces.append(_heat(policy, kind, strip, top))
                top += len(strip) + _CPU_GAP
        top += _GAP
    seed = next(run.seed for run in section.runs if run.leftover is not None)
    when = "at the end of the run" if section.protocol == "openb" else "at the end of the measured time"
    groups = ", ".join(f"{model} ({int((columns.model_N == k).sum())})" for k, model in enumerate(columns.models))
    order = (
        f"{D} rows of devices, the emptiest of each node on top; last row: CPU. Nodes from left to right by GPU model, "
        f"then by what is left: {groups}."
        if D
        else "Nodes by what is left."
    )
    layout = _layout(columns, names, top - _GAP)
    return Figure(
        "What is left on nodes and devices" if D else "CPU left on nodes",
        f"Seed {seed}, {when}. Pale is used, strong is left. {order}",
        traces,
        layout,
        height=round(top * _ROW_PIXELS[D > 3]) + 110,
        wide=True,
    )


def columns_of(trace: Trace) -> Columns:
    """At most about MOST_COLUMNS, models with most nodes first."""
    nodes = trace.nodes
    names = [(node.gpu_model or "GPU") if node.gpu_count else NO_GPU for node in nodes]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    models = sorted(counts, key=lambda name: (name == NO_GPU, -counts[name], name))
    shrink = max(1.0, len(nodes) / MOST_COLUMNS)
    widths = [max(1, int(counts[name] / shrink)) for name in models]
    return Columns(np.array([models.index(name) for name in names], np.int64), models, widths)


def strips(leftover: Leftover, columns: Columns, devices: int) -> dict[str, FloatArray]:
    """Percent left: of each device (rows) and of CPU (one row), sorted and averaged into columns."""
    milli_ND = leftover.gpu_left_ND[:, :devices].astype(np.float64)
    percent_ND = np.where(milli_ND < 0, np.nan, milli_ND / 10)
    percent_ND = -np.sort(-percent_ND, axis=1)  # the emptiest first; missing devices stay last
    cpu_N = leftover.cpu_left_N.astype(np.float64)
    gpu_N = np.maximum(milli_ND, 0).sum(axis=1)
    order_N = np.lexsort((-cpu_N, -gpu_N, columns.model_N))
    starts, before = [], 0
    for model, width in enumerate(columns.widths):
        count = int((columns.model_N == model).sum())
        starts.append(before + np.arange(width) * count // width)
        before += count
    start_C = np.concatenate(starts)
    return {"GPU": _means(percent_ND[order_N], start_C).T, "CPU": _means(cpu_N[order_N, None], start_C).T}


def _means(values: FloatArray, start_C: IntArray) -> FloatArray:
    """Mean over the rows of each column of the figure, of what is there; NaN where nothing is."""
    there = ~np.isnan(values)
    count = np.add.reduceat(there.astype(np.int64), start_C, axis=0)
    total = np.add.reduceat(np.where(there, values, 0.0), start_C, axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _heat(policy: str, kind: str, strip: FloatArray, top: float) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": f"{shown_name(policy)}, {kind}",
        "z": packed(strip),
        "y0": top + 0.5,
        "dy": 1,
        "coloraxis": "coloraxis",
        "hoverongaps": False,
        "hovertemplate": "%{z:.0f} % left",
    }


def _strip_name(policy: str, top: float) -> dict[str, Any]:
    return {
        "text": shown_name(policy),
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": top,
        "yref": "y",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _layout(columns: Columns, names: list[dict[str, Any]], height: float) -> dict[str, Any]:
    ends = np.cumsum(columns.widths)
    total = int(ends[-1])
    several = len(columns.models) > 1 or columns.models[0] != NO_GPU
    named = [k for k, width in enumerate(columns.widths) if several and width >= 0.06 * total]  # wide enough to be read
    borders = [
        {
            "type": "line",
            "x0": int(end) - 0.5,
            "x1": int(end) - 0.5,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": "--muted", "width": 1, "dash": "dot"},
        }
        for end in ends[:-1]
    ]
    return {
        "xaxis": axis(
            "nodes by GPU model" if named else "nodes",
            showgrid=False,
            zeroline=False,
            range=[-0.5, total - 0.5],
            tickvals=[float(ends[k] - columns.widths[k] / 2 - 0.5) for k in named],
            ticktext=[shown_name(columns.models[k]) for k in named],
            tickangle=0,
        ),
        "yaxis": axis("", range=[height, -_GAP], showgrid=False, zeroline=False, showticklabels=False, ticks=""),
        "annotations": names,
        "shapes": borders,
        "coloraxis": {
            "cmin": 0,
            "cmax": 100,
            "colorscale": [[0, "--left-0"], [0.5, "--left-50"], [1, "--left-100"]],
            "colorbar": {"title": {"text": "% left"}, "thickness": 10, "len": 1, "x": 1.01},
        },
        "hovermode": "closest",
    }
