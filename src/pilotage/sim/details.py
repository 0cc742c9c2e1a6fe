"""A run in detail, as tables: every pod's decision, and the meters over arrived load or over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pilotage.kernels.feasibility import FITS
from pilotage.kernels.meters import METERS
from pilotage.kernels.scene import POD_STATES
from pilotage.policies.explain import obstacle_text
from pilotage.sim.run import Run

if TYPE_CHECKING:
    import polars as pl


def decisions_table(run: Run) -> pl.DataFrame:
    """One row per pod, in order of arrival."""
    import polars as pl

    progress, workload = run.scene.progress, run.workload
    names = [node.name for node in run.state.nodes]
    shapes = [workload.shapes[s] for s in workload.shape_P]
    return pl.DataFrame(
        {
            "pod": list(workload.names),
            "kind": [shape.kind for shape in shapes],
            "cpu_milli": [shape.cpu_milli for shape in shapes],
            "memory_bytes": [shape.memory_bytes for shape in shapes],
            "gpu_milli": [shape.gpu_milli for shape in shapes],
            "gpu_count": [shape.gpu_count for shape in shapes],
            "gpu_models": [shape.gpu_models for shape in shapes],
            "arrival": run.scene.timeline.arrival_P,
            "state": [POD_STATES[state] for state in progress.state_P],
            "node": [names[n] if n >= 0 else None for n in progress.node_P],
            "devices": [_bits(int(mask)) for mask in progress.devices_P],
            "placed_at": progress.placed_at_P,
            "ended_at": progress.ended_at_P,
            "restarts": progress.restarts_P,
            "reason": [None if n >= 0 else reason_text(run, p) for p, n in enumerate(progress.node_P.tolist())],
        },
        schema_overrides={"devices": pl.List(pl.Int64), "reason": pl.String, "node": pl.String},
        nan_to_null=True,
    )


def reason_text(run: Run, pod: int) -> str:
    """Why a pod has no node. Needs a run with reasons."""
    code = int(run.tape.reason_P[pod]) if len(run.tape.reason_P) else FITS
    if code != FITS:
        return obstacle_text(code, run.state.resources)
    if run.scene.timeline.whole_gangs and run.scene.timeline.gang_P[pod] >= 0:
        return "its gang did not fit whole"
    return "behind others of its shape" if run.scene.timeline.retry else "not recorded"


def _bits(mask: int) -> list[int]:
    return [d for d in range(mask.bit_length()) if (mask >> d) & 1]


def meters_table(run: Run) -> pl.DataFrame:
    """The meters after each decision (arrived load) or on the time grid."""
    import polars as pl

    if len(run.tape.arrived_P):
        first: dict[str, object] = {"arrived_gpu_milli": run.tape.arrived_P}
        values = run.tape.meter_PM
    else:
        filled = int(run.scene.series.sampled_1[0])
        first = {"time": run.scene.series.grid_G[:filled]}
        values = run.scene.series.sample_GM[:filled]
    return pl.DataFrame(first | {name: np.ascontiguousarray(values[:, m]) for m, name in enumerate(METERS)})
