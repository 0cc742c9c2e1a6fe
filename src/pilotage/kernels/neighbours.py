"""The columns about a pod's gang: how many of its placed pods are on a node, in its rack, in its zone."""

from __future__ import annotations

from pilotage.kernels.compiling import kernel
from pilotage.kernels.features import GANG_IN_RACK, GANG_IN_ZONE, GANG_ON_NODE, POD_GANG_PLACED
from pilotage.kernels.scene import RUNS, Scene


@kernel
def look_around(scene: Scene, pod: int) -> None:
    """Fills the columns for the decision about `pod`, where the policy looks at them."""
    around, g = scene.neighbours, scene.timeline.gang_P[pod]
    if not around.wanted:
        return
    placed = count_members(scene, g) if g >= 0 else 0
    scene.shapes.pod_SF[scene.timeline.shape_P[pod], POD_GANG_PLACED] = placed
    if g < 0 and around.shown_1[0] == 0:
        return  # every column is zero already
    around.shown_1[0] = g + 1
    zone_N, rack_N = scene.cluster.zone_N, scene.cluster.rack_N
    for n in range(scene.node_NF.shape[0]):
        row = scene.node_NF[n]
        if g < 0:
            row[GANG_ON_NODE] = row[GANG_IN_RACK] = row[GANG_IN_ZONE] = 0.0
            continue
        in_rack = around.in_rack_K[rack_N[n]] if rack_N[n] >= 0 else 0
        in_zone = around.in_zone_Z[zone_N[n]] if zone_N[n] >= 0 else 0
        row[GANG_IN_RACK] = max(row[GANG_ON_NODE], in_rack)
        row[GANG_IN_ZONE] = max(row[GANG_IN_RACK], in_zone)


@kernel
def count_members(scene: Scene, g: int) -> int:
    """Placed pods of gang g: counted by node (in its column), rack and zone; returns how many there are."""
    around, timeline, cluster = scene.neighbours, scene.timeline, scene.cluster
    around.in_zone_Z[:] = 0
    around.in_rack_K[:] = 0
    for n in range(scene.node_NF.shape[0]):
        scene.node_NF[n, GANG_ON_NODE] = 0.0
    placed = 0
    for q in range(timeline.gang_start_G[g], timeline.gang_start_G[g + 1]):
        member = timeline.gang_member_Q[q]
        if scene.progress.state_P[member] != RUNS:
            continue
        n = scene.progress.node_P[member]
        placed += 1
        scene.node_NF[n, GANG_ON_NODE] += 1.0
        if cluster.zone_N[n] >= 0:
            around.in_zone_Z[cluster.zone_N[n]] += 1
        if cluster.rack_N[n] >= 0:
            around.in_rack_K[cluster.rack_N[n]] += 1
    return placed
