"""What Gymnasium gets to see: spaces, and buffers as dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pilotage.envs.vector import VectorCluster
from pilotage.kernels.env_state import FIGURES, Buffers, World
from pilotage.kernels.inputs import MOST_DEVICES, NODE_INPUTS, POD_INPUTS

Observation = dict[str, npt.NDArray[Any]]


def observation_space(vector: VectorCluster) -> spaces.Dict:
    """Numbers of racks and zones are names, not amounts: -1 is none."""
    N, limit = vector.nodes, largest_input(vector.world)
    return spaces.Dict(
        {
            "pod": spaces.Box(-limit, limit, (len(POD_INPUTS),), np.float32),
            "nodes": spaces.Box(-limit, limit, (N, len(NODE_INPUTS)), np.float32),
            "mask": spaces.MultiBinary(N),
            "rack": spaces.Box(-1, N - 1, (N,), np.int64),
            "zone": spaces.Box(-1, N - 1, (N,), np.int64),
        }
    )


def largest_input(world: World) -> float:
    """No input is larger: most are shares, but a pod may ask for many times what a small node has."""
    limit = 1.0 + float((world.shapes.gpu_milli_S * world.shapes.gpu_count_S).max(initial=0)) / 1000.0
    for r in range(2):
        capacity_K = world.capacity_KR[:, r]
        smallest = int(capacity_K[capacity_K > 0].min(initial=np.iinfo(np.int64).max))
        asked = int(world.shapes.request_SR[:, r].max(initial=0))
        limit = max(limit, 2.0 + max(asked, int(capacity_K.max())) / smallest)
    return max(limit, float(np.diff(world.unit_start_U).max()) / MOST_DEVICES)


def observations(buffers: Buffers) -> Observation:
    """Copies: the next step writes to the buffers again."""
    return {
        "pod": buffers.pod_BI.copy(),
        "nodes": buffers.node_BNI.copy(),
        "mask": buffers.mask_BN.astype(np.int8),
        "rack": buffers.rack_BN.copy(),
        "zone": buffers.zone_BN.copy(),
    }


def nothing_due(observation: Observation) -> Observation:
    """The observation of an ended episode, in which no decision is due: zeros, and no racks or zones."""
    return {key: np.full_like(array, -1 if key in ("rack", "zone") else 0) for key, array in observation.items()}


def figures(buffers: Buffers, copy: int) -> dict[str, float]:
    """Those of the episode that ended last in a copy."""
    return dict(zip(FIGURES, buffers.figures_BM[copy].tolist(), strict=True))
