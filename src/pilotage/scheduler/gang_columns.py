"""The columns about a pod's gang on a live cluster: where its placed pods are, and where the others would have room.

The same figures as in the simulator (pilotage.kernels.neighbours); tests count them by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotage.kernels.feasibility import ShapeArrays, feasible_some
from pilotage.kernels.features import (
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    GANG_RACK_ROOM,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
)
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class GangAround:
    """What a decision about a pod of a gang may look at."""

    nodes: Sequence[int] = ()  # of its pods that are placed, one entry each
    left: int = 0  # pods that need a node yet, this one included


NO_GANG = GangAround()
COLUMNS = [GANG_ON_NODE, GANG_IN_RACK, GANG_IN_ZONE, GANG_RACK_ROOM]


def fill(cluster: ClusterArrays, shapes: ShapeArrays, around: GangAround, node_NF: FloatArray) -> None:
    """For the decision about the one shape."""
    shapes.pod_SF[0, POD_GANG_PLACED] = len(around.nodes)
    shapes.pod_SF[0, POD_GANG_LEFT] = around.left
    node_NF[:, COLUMNS] = 0.0
    if around is NO_GANG:
        return
    on_N = np.bincount(np.array(around.nodes, np.int64), minlength=len(node_NF)).astype(np.float64)
    in_rack_N = np.maximum(on_N, _summed(on_N, cluster.rack_N))
    room_N = _room(cluster, shapes)
    node_NF[:, GANG_ON_NODE] = on_N
    node_NF[:, GANG_IN_RACK] = in_rack_N
    node_NF[:, GANG_IN_ZONE] = np.maximum(in_rack_N, _summed(on_N, cluster.zone_N))
    node_NF[:, GANG_RACK_ROOM] = np.where(cluster.rack_N >= 0, _summed(room_N, cluster.rack_N), room_N)


def _summed(amount_N: FloatArray, domain_N: IntArray) -> FloatArray:
    """The sum over each node's domain; 0 without one."""
    inside = domain_N >= 0
    sums = np.bincount(domain_N[inside], weights=amount_N[inside], minlength=1)
    return np.where(inside, sums[domain_N], 0.0)


def _room(cluster: ClusterArrays, shapes: ShapeArrays) -> FloatArray:
    """Pods of the shape that each node could still take."""
    N = len(cluster.alive_N)
    fits_N = np.zeros(N, np.bool_)
    feasible_some(cluster, shapes, 0, np.arange(N), fits_N)
    request_R = shapes.request_SR[0]
    asked = np.flatnonzero(request_R > 0)
    room_N = (cluster.free_NR[:, asked] // request_R[asked]).min(axis=1)
    if shapes.gpu_count_S[0] > 0:
        shares_N = (cluster.device_left_ND // shapes.gpu_milli_S[0]).sum(axis=1)
        room_N = np.minimum(room_N, shares_N // shapes.gpu_count_S[0])
    return np.where(fits_N, room_N, 0).astype(np.float64)
