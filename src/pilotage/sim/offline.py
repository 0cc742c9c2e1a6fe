"""Decisions of any policy as a data set for learning without a simulator: what was seen, done and changed.

Runs of the OpenB protocol, decision by decision. What a row sees is what learned policies see (kernels.inputs); pods
that fit nowhere are no decision and have no row. Written in parts, so that memory does not grow with the run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from pilotage.kernels.episode import step
from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.inputs import INPUTS_VERSION, NODE_INPUTS, POD_INPUTS, encode_inputs
from pilotage.kernels.meters import AMOUNTS, CPU_SHARE_SQUARES, CPU_SHARE_SUM, GPU_USED, NODES_USED
from pilotage.model.cluster import MEMORY_AXIS
from pilotage.model.errors import InputError
from pilotage.sim.run import Run
from pilotage.workloads.files import make_directory, replace_file
from pilotage.workloads.tables import figures, flags, parquet, texts
from pilotage.workloads.trace import Trace

if TYPE_CHECKING:
    from arro3.core import Array

FORMAT: Final = 1
PART_BYTES: Final = 32 * 1024 * 1024  # of inputs in memory
CHANGES: Final = ("gpu_allocation", "fragmentation", "used_nodes", "cpu_variance", "memory_variance")
SCHEMA_FILE: Final = "dataset.json"


@dataclass(frozen=True)
class Decision:
    """One row."""

    pod: str
    pod_I: np.ndarray[tuple[int], np.dtype[np.float32]]
    node_NI: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    mask_N: np.ndarray[tuple[int], np.dtype[np.bool_]]
    action: int
    change_C: np.ndarray[tuple[int], np.dtype[np.float64]]


def decisions_of(run: Run) -> Iterator[Decision]:
    """Carries a fresh run without retries out, and yields each decision with what it changed."""
    if run.settings.retry or run.settings.timed:
        raise InputError("runs over time have no data set: pods depart between decisions", expected="--protocol openb")
    # Inputs hold columns about gangs, whether the policy itself looks at them or not.
    run.scene = run.scene._replace(neighbours=run.scene.neighbours._replace(wanted=True))
    run.interpreter.scene = run.scene
    scene, N = run.scene, len(run.state.nodes)
    everywhere = np.arange(N)
    before_C = _state(run)
    pod = int(step(scene, run.tape, -1, -1, 0))
    while pod >= 0:
        node, devices = run.interpreter.decision(pod)
        s = int(run.workload.shape_P[pod])
        pod_I, node_NI = np.zeros(len(POD_INPUTS), np.float32), np.zeros((N, len(NODE_INPUTS)), np.float32)
        encode_inputs(scene.shapes.pod_SF[s], scene.node_NF, scene.cluster.device_left_ND, pod_I, node_NI)
        mask_N = np.zeros(N, np.bool_)
        feasible_some(scene.cluster, scene.shapes, s, everywhere, mask_N)
        following = int(step(scene, run.tape, pod, node, devices))
        if node >= 0:
            after_C = _state(run)
            yield Decision(run.workload.names[pod], pod_I, node_NI, mask_N, node, after_C - before_C)
            before_C = after_C
        pod = following


def _state(run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What CHANGES are differences of: shares of the cluster, and variances over nodes of used shares."""
    total_M, arrays, N = run.scene.meters.total_M, run.state.arrays, len(run.state.nodes)
    amount_7 = total_M[AMOUNTS : AMOUNTS + 7]
    gpus = max(float(run.state.gpu_capacity_milli), 1.0)
    mean = total_M[CPU_SHARE_SUM] / N
    capacity_N = np.maximum(arrays.capacity_NR[:, MEMORY_AXIS], 1)
    memory_N = (capacity_N - arrays.free_NR[:, MEMORY_AXIS]) / capacity_N
    figures = (
        total_M[GPU_USED] / gpus,
        (amount_7.sum() - amount_7[2]) / gpus,  # all but the satisfied one
        total_M[NODES_USED] / N,
        total_M[CPU_SHARE_SQUARES] / N - mean * mean,
        float(np.var(memory_N)),
    )
    return np.array(figures, np.float64)


def write_offline(run: Run, trace: Trace, seed: int, load: float, directory: Path) -> int:
    """Writes part-00000.parquet, ... and what they are (dataset.json); returns the number of decisions.

    The directory appears when everything is written.
    """
    if directory.exists():
        raise InputError("is there already", file=directory, expected="a directory that does not exist")
    stage = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(stage, ignore_errors=True)
    make_directory(stage)
    try:
        rows = _write_parts(run, stage)
        about = _about(run, trace, seed, load) | {"decisions": rows}
        replace_file(stage / SCHEMA_FILE, (json.dumps(about, indent=1) + "\n").encode())
        stage.replace(directory)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=directory) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return rows


def _write_parts(run: Run, stage: Path) -> int:
    """One part at a time; a row is kept back until it is known whether it is the last."""
    most = max(1, PART_BYTES // (4 * len(NODE_INPUTS) * len(run.state.nodes)))
    part: list[Decision] = []
    parts, rows = 0, 0
    for decision in decisions_of(run):
        if len(part) == most:
            replace_file(stage / f"part-{parts:05}.parquet", parquet(columns_of(part, last=False)))
            parts, rows, part = parts + 1, rows + len(part), []
        part.append(decision)
    if not part:
        raise InputError("no pod was placed: there is nothing to learn from")
    replace_file(stage / f"part-{parts:05}.parquet", parquet(columns_of(part, last=True)))
    return rows + len(part)


def columns_of(part: list[Decision], *, last: bool) -> dict[str, Array]:
    """Columns: pod, pod_INPUT, node_INPUT (a list over nodes), mask, action, change_FIGURE, done."""
    pod_BI = np.stack([decision.pod_I for decision in part])
    node_BNI = np.stack([decision.node_NI for decision in part])
    change_BC = np.stack([decision.change_C for decision in part])
    columns = {"pod": texts([decision.pod for decision in part])}
    columns |= {f"pod_{name}": figures(pod_BI[:, i]) for i, name in enumerate(POD_INPUTS)}
    columns |= {f"node_{name}": figures(node_BNI[:, :, i]) for i, name in enumerate(NODE_INPUTS)}
    columns["mask"] = figures(np.stack([decision.mask_N for decision in part]))
    columns["action"] = figures(np.array([decision.action for decision in part], np.int32))
    columns |= {f"change_{name}": figures(change_BC[:, c]) for c, name in enumerate(CHANGES)}
    columns["done"] = flags([last and b == len(part) - 1 for b in range(len(part))])
    return columns


def _about(run: Run, trace: Trace, seed: int, load: float) -> dict[str, object]:
    """What the rows are about; nodes in the order of the lists, so `action` is an index into them."""
    arrays = run.state.arrays
    return {
        "format": FORMAT,
        "inputs_version": INPUTS_VERSION,
        "pod_inputs": list(POD_INPUTS),
        "node_inputs": list(NODE_INPUTS),
        "changes": list(CHANGES),
        "policy": run.policy.name,
        "trace": trace.name,
        "digest": trace.digest,
        "seed": seed,
        "load": load,
        "nodes": [node.name for node in run.state.nodes],
        "rack": arrays.rack_N.tolist(),
        "zone": arrays.zone_N.tolist(),
        "failed_pods": int((run.scene.progress.node_P < 0).sum()),
    }
