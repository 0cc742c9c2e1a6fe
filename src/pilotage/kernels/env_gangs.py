"""How near the pods of a gang are: three for the same node, two for the same rack, one for the same zone."""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, inner
from pilotage.kernels.env_state import SHOWN, UNDECIDED, Copy
from pilotage.kernels.features import GANG_IN_RACK, GANG_IN_ZONE, GANG_ON_NODE, POD_GANG_LEFT, POD_GANG_PLACED

SAME_NODE, SAME_RACK, SAME_ZONE = 3, 2, 1


@inlined_inner
def closeness(copy: Copy, n: int, other: int) -> int:
    cluster = copy.cluster
    if n == other:
        return SAME_NODE
    if cluster.rack_N[n] >= 0 and cluster.rack_N[n] == cluster.rack_N[other]:
        return SAME_RACK
    return SAME_ZONE if cluster.zone_N[n] >= 0 and cluster.zone_N[n] == cluster.zone_N[other] else 0


@inner
def nearness(copy: Copy, pod: int, n: int) -> float:
    """How near `pod` on node n is to the placed pods of its gang: 1 for each on the same node, less further away."""
    total = 0
    for member in range(copy.gang_start_P[pod], copy.gang_end_P[pod]):
        if member != pod and copy.node_P[member] >= 0:
            total += closeness(copy, n, copy.node_P[member])
    return total / SAME_NODE


@inner
def show_gang(copy: Copy, pod: int) -> None:
    """Fills the columns about the gang of `pod`; all are zero for a pod without."""
    node_NF, pod_F = copy.node_NF, copy.pod_F
    for n in range(node_NF.shape[0]):
        node_NF[n, GANG_ON_NODE] = node_NF[n, GANG_IN_RACK] = node_NF[n, GANG_IN_ZONE] = 0.0
    copy.counter_X[SHOWN] = copy.gang_end_P[pod] > copy.gang_start_P[pod]
    for member in range(copy.gang_start_P[pod], copy.gang_end_P[pod]):
        place = copy.node_P[member]
        pod_F[POD_GANG_LEFT] += place == UNDECIDED
        if place < 0:
            continue
        pod_F[POD_GANG_PLACED] += 1.0
        for n in range(node_NF.shape[0]):
            level = closeness(copy, n, place)
            node_NF[n, GANG_ON_NODE] += level >= SAME_NODE
            node_NF[n, GANG_IN_RACK] += level >= SAME_RACK
            node_NF[n, GANG_IN_ZONE] += level >= SAME_ZONE
