"""The figures of a section: curves, every seed as a point, failed pods as bars, what is left.

Axes: K seeds, C classes of pods.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pilotage.model.workload import FloatArray
from pilotage.report.curves import curves
from pilotage.report.drawing import COLOURS, Figure, axis, colour_of, packed, shown_name
from pilotage.report.leftovers import leftovers
from pilotage.report.metrics import METRICS
from pilotage.report.section import Section

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
_CLASSES = {
    "failed_cpu_pods": "CPU only",
    "failed_share_pods": "part of a GPU",
    "failed_whole_gpu_pods": "one GPU",
    "failed_multi_gpu_pods": "several GPUs",
}


def figures_of(section: Section) -> list[Figure]:
    """All that can be drawn for a section."""
    found = [*curves(section), seeds(section), failures(section), leftovers(section)]
    return [figure for figure in found if figure is not None]


def seeds(section: Section) -> Figure:
    """Every seed as a point: the difference to the baseline, or the value itself where there is one policy."""
    name = METRICS[section.main_metric].name
    base_K = _values(section, section.baseline)
    alone = len(section.policies) == 1
    order = [policy for policy in reversed(section.policies) if alone or policy != section.baseline]
    traces: list[dict[str, Any]] = []
    for place, policy in enumerate(order):
        value_K = _values(section, policy) - (0 if alone else base_K)
        row = section.row(policy)
        mean, high = (row.mean, row.high) if alone else (row.difference, row.difference_high)
        half = 0.0 if high is None else high - mean
        look = {"color": colour_of(section, policy), "symbol": _SYMBOLS[section.policies.index(policy) % COLOURS]}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": shown_name(policy),
                "x": packed(value_K),
                "y": [place] * len(value_K),
                "customdata": [run.seed for run in section.runs_of(policy)],
                "marker": {**look, "size": 9, "opacity": 0.6},
                "hovertemplate": "seed %{customdata}: %{x:.2f}",
            }
        )
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": shown_name(policy),
                "x": [mean],
                "y": [place - 0.28],
                "error_x": {"type": "data", "array": [half], "color": "--ink", "thickness": 1.5, "width": 5},
                "marker": {"color": "--ink", "symbol": "line-ns-open", "size": 11, "line": {"width": 2}},
                "hovertemplate": f"mean %{{x:.2f}} ± {half:.2f}",
            }
        )
    ticks = {"tickvals": list(range(len(order))), "ticktext": [shown_name(policy) for policy in order]}
    title = f"{name}, seed by seed" if alone else f"{name}: difference to the baseline, seed by seed"
    words = "One point per seed; below, the mean with its 95 % interval."
    if not alone:
        words = f"Zero is {section.baseline}. {words} An interval across zero tells no difference."
    layout = {
        "xaxis": axis(
            "% of capacity" if alone else "percentage points",
            zeroline=not alone,
            rangemode="normal" if alone else "tozero",
        ),
        "yaxis": axis("", range=[-0.7, len(order) - 0.5], showgrid=False, zeroline=False, **ticks),
        "showlegend": False,
        "hovermode": "closest",
    }
    return Figure(title, words, traces, layout, height=120 + 52 * len(order))


def _values(section: Section, policy: str) -> FloatArray:
    return np.array([getattr(run, section.main_metric) for run in section.runs_of(policy)], np.float64)


def failures(section: Section) -> Figure | None:
    """Pods that found no place, by class; None where all found one."""
    counts = {
        policy: np.array([[getattr(run, key) for key in _CLASSES] for run in section.runs_of(policy)], np.float64)
        for policy in section.policies
    }
    failing = np.any([count_KC.any(axis=0) for count_KC in counts.values()], axis=0)
    if not failing.any():
        return None
    classes = [name for name, any_fails in zip(_CLASSES.values(), failing, strict=True) if any_fails]
    traces = []
    for policy, count_KC in counts.items():
        mean_C = count_KC.mean(axis=0)
        bar: dict[str, Any] = {
            "type": "bar",
            "name": shown_name(policy),
            "x": classes,
            "y": packed(mean_C[failing]),
            "marker": {"color": colour_of(section, policy)},
            "hovertemplate": "%{y:,.1f} pods",
        }
        if len(count_KC) > 1:
            bar["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": packed((count_KC.max(axis=0) - mean_C)[failing]),
                "arrayminus": packed((mean_C - count_KC.min(axis=0))[failing]),
                "color": "--muted",
                "thickness": 1,
                "width": 2,
            }
        traces.append(bar)
    words = "Pods refused" if section.protocol == "openb" else "Pods still waiting at the end"
    several = "; whiskers: lowest to highest seed" if len(section.runs_of(section.policies[0])) > 1 else ""
    layout = {
        "xaxis": axis(""),
        "yaxis": axis("pods", rangemode="tozero"),
        "barmode": "group",
        "bargap": 0.3,
        "hovermode": "x unified",
    }
    return Figure("Failed pods by what they ask for", f"{words}, mean over the seeds{several}.", traces, layout)
