"""The only encoder: cluster state and pod shapes become the arrays that policies and kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotage.kernels.feasibility import ShapeArrays
from pilotage.kernels.features import NODE_FEATURES, POD_FEATURES, POD_GANG_PLACED, encode_all
from pilotage.model.cluster import SCORED_CPU_MILLI, SCORED_MEMORY_BYTES, ClusterState
from pilotage.model.workload import BoolArray, FloatArray, IntArray, PodShape


def encode_shapes(state: ClusterState, shapes: Sequence[PodShape]) -> ShapeArrays:
    """Shapes in the axes of one cluster; equal sets of allowed nodes are stored once."""
    rows: dict[object, int] = {}
    eligible: list[BoolArray] = []
    eligible_S = np.zeros(len(shapes), np.int64)
    for s, shape in enumerate(shapes):
        key = (shape.constraints, shape.gpu_models if shape.gpu_count else None)
        if key not in rows:
            rows[key] = len(eligible)
            eligible.append(state.eligible_N(shape))
        eligible_S[s] = rows[key]
    demands = [state.demand(shape) for shape in shapes]
    R = len(state.resources)
    return ShapeArrays(
        request_SR=np.array([d.request_R for d in demands], np.int64).reshape(len(shapes), R),
        scored_S2=np.array([d.scored_2 for d in demands], np.int64).reshape(len(shapes), 2),
        gpu_milli_S=np.array([shape.gpu_milli for shape in shapes], np.int64),
        gpu_count_S=np.array([shape.gpu_count for shape in shapes], np.int64),
        devices_S=np.array([shape.gpu_devices for shape in shapes], np.int64),
        eligible_S=eligible_S,
        eligible_KN=np.array(eligible, np.bool_).reshape(len(eligible), len(state.nodes)),
        pod_SF=np.array([pod_features(shape) for shape in shapes], np.float64).reshape(len(shapes), len(POD_FEATURES)),
        priority_S=np.array([shape.priority for shape in shapes], np.int64),
    )


def pod_features(shape: PodShape, draw: float = 0.0) -> list[float]:
    return [
        shape.cpu_milli,
        shape.memory_bytes,
        shape.gpu_milli,
        shape.gpu_count,
        shape.cpu_milli or SCORED_CPU_MILLI,
        shape.memory_bytes or SCORED_MEMORY_BYTES,
        shape.priority,
        draw,
        *(0.0 for _ in POD_FEATURES[POD_GANG_PLACED:]),  # about its gang and its limits: filled per decision
    ]


def encode_nodes(state: ClusterState, rank_N: IntArray) -> FloatArray:
    """Feature rows of all nodes. `rank_N` is the order that breaks ties."""
    node_NF = np.zeros((len(state.nodes), len(NODE_FEATURES)))
    encode_all(state.arrays, rank_N, node_NF)
    return node_NF
