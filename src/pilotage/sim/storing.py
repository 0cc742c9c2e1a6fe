"""Results as files: the same bytes for the same comparison, whatever the machine. Files appear whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pilotage import __version__
from pilotage.model.workload import FloatArray
from pilotage.policies.registry import registered
from pilotage.sim.compare import Outcome
from pilotage.sim.results import RunResult
from pilotage.workloads.files import make_directory, replace_file
from pilotage.workloads.result_files import dump, table
from pilotage.workloads.tables import numbers, parquet, texts, wholes

if TYPE_CHECKING:
    from arro3.core import Array

RUN_KEYS = (
    "trace",
    "policy",
    "seed",
    "load",
    "gpu_allocation_percent",
    "fragmentation_percent",
    "failed_pods",
    "failed_cpu_pods",
    "failed_multi_gpu_pods",
    "lost_before_l0_percent",
    "decisions",
)
_TABLES = {
    "openb_allocation.csv": "allocation_L",
    "openb_fragmentation.csv": "fragmentation_L",
    "openb_fragmentation_ratio.csv": "fragmentation_ratio_L",
}


def as_json(outcome: Outcome, *, seconds: bool) -> dict[str, object]:
    """What `compare --json` prints (with seconds) and `results.json` holds (without)."""
    runs = []
    for run, spent in zip(outcome.runs, outcome.seconds, strict=True):
        figures = run.figures()
        ordered = {key: figures[key] for key in RUN_KEYS}
        ordered |= {"seconds": round(spent, 6)} if seconds else {}
        runs.append(ordered | {key: value for key, value in figures.items() if key not in ordered})
    return {"runs": runs, "summary": [asdict(row) for row in outcome.summary]}


def write_results(outcome: Outcome, directory: Path, command: str) -> list[Path]:
    make_directory(directory)
    frame = [run.figures() for run in outcome.runs]
    files = {
        "results.parquet": _parquet(frame),
        "results.json": dump(as_json(outcome, seconds=False) | {"made_by": _provenance(outcome, command)}),
        "results.csv": table(frame),
        "summary.csv": table([asdict(row) for row in outcome.summary]),
        "timings.json": dump(
            [
                {"trace": r.trace, "policy": r.policy, "load": r.load, "seed": r.seed, "seconds": round(s, 6)}
                for r, s in zip(outcome.runs, outcome.seconds, strict=True)
            ]
        ),
    }
    if outcome.comparison.protocol == "openb":
        files |= {name: openb_table(outcome, column).encode() for name, column in _TABLES.items()}
    for name, content in files.items():
        replace_file(directory / name, content)
    return [directory / name for name in files]


def _provenance(outcome: Outcome, command: str) -> dict[str, object]:
    return {
        "command": command,
        "pilotage": __version__,
        "traces": {trace.name: trace.digest for trace in outcome.traces},
        "settings": outcome.comparison.settings(),
    }


def _parquet(rows: list[dict[str, object]]) -> bytes:
    """Each column has one type, whatever is in it: those of RunResult."""
    columns: dict[str, Callable[[Any], Array]] = {"str": texts, "int": wholes, "float": numbers}
    kinds = {f.name: str(f.type).removesuffix(" | None") for f in fields(RunResult) if f.name in rows[0]}
    return parquet({name: columns[kind]([row[name] for row in rows]) for name, kind in kinds.items()})


def openb_table(outcome: Outcome, column: str) -> str:
    """One of the published tables: a row per run, a column per percent of arrived load."""
    totals = {trace.name: sum(node.gpu_count for node in trace.nodes) for trace in outcome.traces}
    with_total = column == "allocation_L"
    rows, width = [], 0
    for run in outcome.runs:
        if run.moved_pods is not None:
            continue  # a table is about arrivals; pods were moved after them
        cells = [_cell(value) for value in _column(run, column)]
        width = max(width, len(cells))
        head = [run.trace, published_name(run.policy), f"{run.load:g}", str(run.seed)]
        rows.append((head, [str(totals[run.trace])] if with_total else [], cells))
    rows.sort(key=lambda row: (row[0][0], row[0][1], int(row[0][3])))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    extra = ["total_gpus"] if with_total else []
    writer.writerow(["workload", "sc_policy", "tune", "seed", *extra, *range(width)])
    for head, total, cells in rows:
        writer.writerow([*head, *total, *cells, *[""] * (width - len(cells))])
    return text.getvalue()


def _column(run: RunResult, column: str) -> FloatArray:
    if run.tables is None:
        return np.zeros(0)
    values: FloatArray = getattr(run.tables, column)
    return values


def _cell(value: float) -> str:
    return "" if np.isnan(value) else repr(float(value))


def published_name(policy: str) -> str:
    """The id of the published tables where there is one."""
    known = registered().get(policy)
    published: str = getattr(known, "published_id", "")
    return published or (policy.rpartition("@")[0] if known else policy)
