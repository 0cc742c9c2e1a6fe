"""`report.html` of a profile: durations and how sure they are, as heat maps; the model that describes them best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilotage import __version__
from pilotage.gang.monotone_durations import Choice
from pilotage.gang.profiling import Spread
from pilotage.report.document import document
from pilotage.report.drawing import Figure, axis, packed, place
from pilotage.report.gang_durations import durations_figure, durations_section
from pilotage.report.markup import text
from pilotage.workloads.files import replace_file


def write_profile_report(job: str, spreads: Mapping[str, Spread], choice: Choice, path: Path, command: str) -> None:
    figures = []
    unsure = (
        "What is left open by the spread of the tries and by neighbouring cells. Measured next is where it is largest."
    )
    for task, own in spreads.items():
        figures.append(_map(f"{task}: seconds", "Mean of the tries.", own, own.mean_SC))
        figures.append(_map(f"{task}: unsureness, %", unsure, own, 100 * own.unsure_SC))
        figures.append(durations_figure(choice, task, own))
    drawn = "".join(place(figure, f"figure-{number}") for number, figure in enumerate(figures))
    body = (
        f'<p class="kicker">Pilotage profile</p><h1>Durations of {text(job)}</h1>'
        f"{durations_section(choice, 'best')}"
        f'<section><div class="figures">{drawn}</div></section>'
        f'<section><h2>How this was made</h2><pre class="command"><code>{text(command)}</code></pre>'
        f"<p>pilotage {__version__}.</p></section>"
    )
    replace_file(path, document(f"Pilotage profile: {text(job)}", body).encode(errors="replace"))


def _map(title: str, words: str, own: Spread, value_SC: Any) -> Figure:
    trace = {
        "type": "heatmap",
        "x": [f"{share:g}" for share in own.share_C],
        "y": [f"{size:g}" for size in own.size_S],
        "z": packed(value_SC),
        "colorscale": "Viridis",
        "hovertemplate": "share %{x}, size %{y}: %{z:.3g}<extra></extra>",
    }
    layout = {"xaxis": axis("milli CPU", type="category"), "yaxis": axis("size", type="category")}
    return Figure(title, words, [trace], layout)
