"""The columns about a pod's gang: where its placed pods are, and where the others would have room."""

from __future__ import annotations

from pilotage.kernels.compiling import inner
from pilotage.kernels.feasibility import FITS, obstacle
from pilotage.kernels.features import (
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    GANG_RACK_ROOM,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
)
from pilotage.kernels.scene import NOT_ARRIVED, RUNS, WAITS, Scene


@inner
def look_around(scene: Scene, pod: int) -> None:
    """Fills the columns for the decision about `pod`."""
    around, timeline = scene.neighbours, scene.timeline
    g, s = timeline.gang_P[pod], timeline.shape_P[pod]
    placed, left = 0, 0
    if g >= 0:
        placed, left = count_members(scene, g)
    scene.shapes.pod_SF[s, POD_GANG_PLACED] = placed
    scene.shapes.pod_SF[s, POD_GANG_LEFT] = left
    if g < 0 and around.shown_1[0] == 0:
        return  # every column is zero already
    around.shown_1[0] = g + 1
    if g >= 0:
        count_room(scene, s)
    zone_N, rack_N = scene.cluster.zone_N, scene.cluster.rack_N
    for n in range(scene.node_NF.shape[0]):
        row = scene.node_NF[n]
        if g < 0:
            row[GANG_ON_NODE] = row[GANG_IN_RACK] = row[GANG_IN_ZONE] = row[GANG_RACK_ROOM] = 0.0
            continue
        in_rack = around.in_rack_K[rack_N[n]] if rack_N[n] >= 0 else 0
        in_zone = around.in_zone_Z[zone_N[n]] if zone_N[n] >= 0 else 0
        row[GANG_IN_RACK] = max(row[GANG_ON_NODE], in_rack)
        row[GANG_IN_ZONE] = max(row[GANG_IN_RACK], in_zone)
        if rack_N[n] >= 0:
            row[GANG_RACK_ROOM] = around.room_K[rack_N[n]]


@inner
def count_members(scene: Scene, g: int) -> tuple[int, int]:
    """Pods of gang g that run, counted by node (in its column), rack and zone too; and those that will need a node."""
    around, timeline, cluster = scene.neighbours, scene.timeline, scene.cluster
    around.in_zone_Z[:] = 0
    around.in_rack_K[:] = 0
    for n in range(scene.node_NF.shape[0]):
        scene.node_NF[n, GANG_ON_NODE] = 0.0
    placed, left = 0, 0
    for q in range(timeline.gang_start_G[g], timeline.gang_start_G[g + 1]):
        member = timeline.gang_member_Q[q]
        state = scene.progress.state_P[member]
        left += state in (NOT_ARRIVED, WAITS)
        if state != RUNS:
            continue
        n = scene.progress.node_P[member]
        placed += 1
        scene.node_NF[n, GANG_ON_NODE] += 1.0
        if cluster.zone_N[n] >= 0:
            around.in_zone_Z[cluster.zone_N[n]] += 1
        if cluster.rack_N[n] >= 0:
            around.in_rack_K[cluster.rack_N[n]] += 1
    return placed, left


@inner
def count_room(scene: Scene, s: int) -> None:
    """Pods of shape s that each node (in its column) and each rack could still take."""
    around, cluster, shapes = scene.neighbours, scene.cluster, scene.shapes
    around.room_K[:] = 0
    for n in range(scene.node_NF.shape[0]):
        room = 0
        if obstacle(cluster, shapes, s, n) == FITS:
            room = cluster.free_NR[n, 2]  # a pod always asks for one place among the node's pods
            for r in range(shapes.request_SR.shape[1]):
                if shapes.request_SR[s, r] > 0:
                    room = min(room, cluster.free_NR[n, r] // shapes.request_SR[s, r])
            if shapes.gpu_count_S[s] > 0:
                shares = 0
                for d in range(cluster.device_count_N[n]):
                    shares += cluster.device_left_ND[n, d] // shapes.gpu_milli_S[s]
                room = min(room, shares // shapes.gpu_count_S[s])
        scene.node_NF[n, GANG_RACK_ROOM] = room
        if cluster.rack_N[n] >= 0:
            around.room_K[cluster.rack_N[n]] += room
