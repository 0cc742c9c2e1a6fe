"""A run in detail, as tables: every pod's decision, and the meters over arrived load or over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilotage.kernels.feasibility import FITS
from pilotage.kernels.meters import METERS
from pilotage.kernels.scene import POD_STATES
from pilotage.policies.explain import obstacle_text
from pilotage.sim.run import Run
from pilotage.workloads.tables import figures, lists_of_wholes, numbers, texts, wholes

if TYPE_CHECKING:
    from arro3.core import Array


def decisions_table(run: Run) -> dict[str, Array]:
    """Columns with a row per pod, in order of arrival."""
    progress, workload = run.scene.progress, run.workload
    names = [node.name for node in run.state.nodes]
    shapes = [workload.shapes[s] for s in workload.shape_P]
    placed = progress.node_P.tolist()
    return {
        "pod": texts(list(workload.names)),
        "kind": texts([shape.kind for shape in shapes]),
        "cpu_milli": wholes([shape.cpu_milli for shape in shapes]),
        "memory_bytes": wholes([shape.memory_bytes for shape in shapes]),
        "gpu_milli": wholes([shape.gpu_milli for shape in shapes]),
        "gpu_count": wholes([shape.gpu_count for shape in shapes]),
        "gpu_models": texts([shape.gpu_models for shape in shapes]),
        "arrival": numbers(run.scene.timeline.arrival_P.tolist()),
        "state": texts([POD_STATES[state] for state in progress.state_P]),
        "node": texts([names[n] if n >= 0 else None for n in placed]),
        "devices": lists_of_wholes([_bits(mask) for mask in progress.devices_P.tolist()]),
        "placed_at": numbers(progress.placed_at_P.tolist()),
        "ended_at": numbers(progress.ended_at_P.tolist()),
        "restarts": figures(progress.restarts_P),
        "reason": texts([None if n >= 0 else reason_text(run, p) for p, n in enumerate(placed)]),
    }


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


def meters_table(run: Run) -> dict[str, Array]:
    """The meters after each decision (arrived load) or on the time grid."""
    if len(run.tape.arrived_P):
        first = {"arrived_gpu_milli": figures(run.tape.arrived_P)}
        values = run.tape.meter_PM
    else:
        filled = int(run.scene.series.sampled_1[0])
        first = {"time": figures(run.scene.series.grid_G[:filled])}
        values = run.scene.series.sample_GM[:filled]
    return first | {name: figures(values[:, m]) for m, name in enumerate(METERS)}
