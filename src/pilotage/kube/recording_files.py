"""A recording as files: a trace to replay, and decisions to learn from.

nodes.csv and pods.csv are the trace, placements.csv says who went where, decisions.parquet is what
`pilotage train imitation` reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotage.kube.recording import Recorded, Recording
from pilotage.workloads import openb
from pilotage.workloads.files import make_directory, replace_file
from pilotage.workloads.tables import csv, lists_of_wholes, numbers, parquet, texts, wholes

if TYPE_CHECKING:
    from arro3.core import Array

PLACEMENT_COLUMNS = ("pod", "scheduler", "node", "devices", "created", "bound", "ended")
DECISION_COLUMNS: dict[str, Callable[[Any], Array]] = {
    "pod": texts,
    "scheduler": texts,
    "cpu_milli": wholes,
    "memory_bytes": wholes,
    "gpu_milli": wholes,
    "gpu_count": wholes,
    "gpu_models": texts,
    "node": texts,
    "devices": lists_of_wholes,
    "placed_at": numbers,
    "ended_at": numbers,
}
SHORTEST = 0.001  # seconds: the API server's times are whole ones, and a pod must end after it began


def write_recording(recording: Recording, directory: Path) -> None:
    """All files of it; each appears whole."""
    make_directory(directory)
    openb.write_nodes(directory / "nodes.csv", tuple(recording.nodes.values()), lossy=True)
    openb.write_pods(directory / "pods.csv", recording.workload(), lossy=True)
    replace_file(directory / "placements.csv", csv(PLACEMENT_COLUMNS, recording.placements()))
    rows = decisions(recording)
    columns = {name: column([row[name] for row in rows]) for name, column in DECISION_COLUMNS.items()}
    replace_file(directory / "decisions.parquet", parquet(columns))


def decisions(recording: Recording) -> list[dict[str, object]]:
    """Placements in their order, with what was asked for; those that cannot be played again are left out: pods with
    devices that nobody wrote down, and pods on nodes that were never seen."""
    placed = [entry for entry in recording.pods.values() if _known(entry, recording)]
    placed.sort(key=lambda entry: (entry.bound_at, entry.pod.created, entry.pod.key))
    origin = placed[0].bound_at if placed else 0.0
    return [_row(entry, origin) for entry in placed]


def _known(entry: Recorded, recording: Recording) -> bool:
    node = recording.nodes.get(entry.node)
    asked = entry.shape_before.shape.gpu_count
    return node is not None and entry.devices.bit_count() == asked and entry.devices < 1 << node.gpu_count


def _row(entry: Recorded, origin: float) -> dict[str, object]:
    shape, began = entry.shape_before.shape, entry.bound_at - origin
    return {
        "pod": entry.pod.key,
        "scheduler": entry.pod.scheduler,
        "cpu_milli": shape.cpu_milli,
        "memory_bytes": shape.memory_bytes,
        "gpu_milli": shape.gpu_milli,
        "gpu_count": shape.gpu_count,
        "gpu_models": shape.gpu_models,
        "node": entry.node,
        "devices": [d for d in range(entry.devices.bit_length()) if entry.devices >> d & 1],
        "placed_at": began,
        "ended_at": None if math.isinf(entry.ended_at) else max(entry.ended_at - origin, began + SHORTEST),
    }
