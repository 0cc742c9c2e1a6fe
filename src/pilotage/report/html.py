"""`report.html`: one self-contained file with the table and the curves over arrived load."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pilotage import __version__
from pilotage.report.tables import columns_of
from pilotage.workloads.files import replace_file

if TYPE_CHECKING:
    from pilotage.sim.compare import Outcome, Row

LONG_NAMES = {
    "gpu_allocation_percent": "GPU allocated %",
    "fragmentation_percent": "fragmented %",
    "failed_pods": "failed pods",
    "lost_before_l0_percent": "lost before L0 %",
    "gpu_weighted_wait": "GPU-weighted wait s",
    "cpu_allocation_percent": "CPU allocated %",
    "memory_allocation_percent": "memory allocated %",
    "cpu_variance": "variance of CPU use",
    "nodes_used": "nodes used",
    "mean_wait": "mean wait s",
}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pilotage comparison</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #d5dde5; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }}
.wide {{ overflow-x: auto; }} code {{ background: #f0f3f6; padding: .1rem .3rem; word-break: break-all; }}
</style></head><body>
<h1>Pilotage comparison</h1>
<p>{lead}</p>
{body}
<h2>How this was made</h2>
<p><code>{command}</code></p>
<p>pilotage {version}. Traces: {traces}.</p>
</body></html>
"""


def write_report(outcome: Outcome, path: Path, command: str) -> Path:
    body = []
    library: bool | str = True
    for trace in outcome.traces:
        body.append(f"<h2>{escape(trace.name)}</h2>")
        body.append(_table(outcome, trace.name))
        if any(run.tables is not None for run in outcome.runs if run.trace == trace.name):
            body.append(_curves(outcome, trace.name, library))
            library = False  # the drawing library goes into the page once
    traces = ", ".join(f"{escape(trace.name)} <code>{trace.digest[:16]}</code>" for trace in outcome.traces)
    page = _PAGE.format(
        lead=escape(_lead(outcome)),
        body="\n".join(body),
        command=escape(command),
        version=__version__,
        traces=traces,
    )
    replace_file(path, page.encode())
    return path


def _lead(outcome: Outcome) -> str:
    """The operator's question first: how many GPUs one policy keeps busy more than another."""
    lines = []
    for trace in outcome.traces:
        total = sum(node.gpu_count for node in trace.nodes)
        if not total:
            continue
        rows = [r for r in outcome.summary if r.trace == trace.name and r.metric == "gpu_allocation_percent"]
        ranked = sorted(rows, key=lambda row: -row.mean)
        line = f"On {trace.name} ({total:,} GPUs) {ranked[0].policy} keeps most GPUs busy: {ranked[0].mean:.2f} %."
        if len(ranked) > 1:
            others = (f"{(ranked[0].mean - row.mean) * total / 100:,.0f} more than {row.policy}" for row in ranked[1:])
            line += f" In whole GPUs: {', '.join(others)}."
        lines.append(line)
    return " ".join(lines)


def _table(outcome: Outcome, trace: str) -> str:
    rows = [row for row in outcome.summary if row.trace == trace]
    cell = {(row.policy, row.metric): row for row in rows}
    policies = list(dict.fromkeys(row.policy for row in rows))
    metrics = list(columns_of(outcome, trace))
    head = "".join(f"<th>{escape(LONG_NAMES[metric])}</th>" for metric in metrics)
    lines = []
    for policy in policies:
        own = [cell[policy, metric] for metric in metrics]
        values = "".join(f"<td>{_cell(row)}</td>" for row in own)
        room = own[0].room_closed_percent
        lines.append(
            f"<tr><td>{escape(policy)}</td>{values}<td>{own[0].difference:+.2f}</td>"
            f"<td>{'-' if room is None else f'{room:.0f} %'}</td></tr>"
        )
    return (
        f'<div class="wide"><table><tr><th>policy</th>{head}<th>against {escape(rows[0].baseline)}</th>'
        f"<th>room closed</th></tr>{''.join(lines)}</table></div>"
    )


def _cell(row: Row) -> str:
    digits = {"failed_pods": 0, "cpu_variance": 5}.get(row.metric, 2)
    spread = f" ± {row.high - row.mean:.{digits}f}" if row.high is not None else ""
    return f"{row.mean:.{digits}f}{spread}"


def _curves(outcome: Outcome, trace: str, library: bool | str) -> str:
    """GPU allocation over arrived load: mean of the seeds, and the band from lowest to highest."""
    import plotly.graph_objects as go
    from plotly.colors import qualitative

    figure = go.Figure()
    policies = list(dict.fromkeys(run.policy for run in outcome.runs))
    for k, policy in enumerate(policies):
        runs = [r for r in outcome.runs if r.trace == trace and r.policy == policy and r.tables is not None]
        values = np.array([run.tables.allocation_L for run in runs if run.tables is not None])
        load = np.arange(values.shape[1])
        colour = qualitative.Safe[k % len(qualitative.Safe)]
        figure.add_scatter(
            x=np.concatenate([load, load[::-1]]),
            y=np.concatenate([values.max(axis=0), values.min(axis=0)[::-1]]),
            fill="toself",
            fillcolor=colour,
            opacity=0.2,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=policy,
        )
        figure.add_scatter(x=load, y=values.mean(axis=0), name=policy, line={"color": colour}, legendgroup=policy)
    figure.update_layout(
        template="plotly_white",
        title="GPU allocated over arrived load",
        xaxis_title="arrived GPU requests, % of capacity",
        yaxis_title="allocated, % of capacity",
        legend={"orientation": "h", "y": -0.2},
        margin={"l": 60, "r": 20, "t": 50, "b": 60},
    )
    place = [known.name for known in outcome.traces].index(trace)
    html: str = figure.to_html(
        full_html=False, include_plotlyjs=library, config={"displaylogo": False}, div_id=f"curves-{place}"
    )
    return html
