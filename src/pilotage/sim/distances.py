"""How far apart the pods of gangs are: 0 on the same node, 1 in the same rack, 2 in the same zone, 3 further."""

from __future__ import annotations

import numpy as np

from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import FloatArray, IntArray
from pilotage.sim.run import Run

FURTHEST = 3


def gang_distance(run: Run) -> float | None:
    """Mean over gangs of the mean distance over the pairs of their pods, each where it was placed last.

    Gangs that start whole count when all their pods have been placed, others with those pods that have; one pod alone
    has no distance. None where no gang counts or no node says where it stands.
    """
    cluster, timeline = run.state.arrays, run.scene.timeline
    if not _is_labelled(cluster):
        return None
    node_P, gang_P = run.scene.progress.node_P, timeline.gang_P
    G = len(timeline.gang_start_G) - 1
    placed_P = (gang_P >= 0) & (node_P >= 0)
    placed_G = np.bincount(gang_P[placed_P], minlength=G)
    counts_G = placed_G >= 2
    if timeline.whole_gangs:
        counts_G &= placed_G == np.diff(timeline.gang_start_G)
    if not counts_G.any():
        return None
    rows = np.flatnonzero(placed_P)
    # Each pair is at most 3 apart, and one less for each of node, rack and zone that the two share.
    shared_G = np.sum([_pairs_sharing(gang_P[rows], place_N[node_P[rows]], G) for place_N in _places(cluster)], axis=0)
    pairs_G = (placed_G * (placed_G - 1) / 2)[counts_G]
    return float(np.mean(FURTHEST - shared_G[counts_G] / pairs_G))


def _is_labelled(cluster: ClusterArrays) -> bool:
    return bool((cluster.zone_N >= 0).any() or (cluster.rack_N >= 0).any())


def _places(cluster: ClusterArrays) -> tuple[IntArray, IntArray, IntArray]:
    """Numbers of node, rack and zone. A node without a label shares that place with nobody outside the one below."""
    node_N = np.arange(len(cluster.rack_N))
    rack_N = np.where(cluster.rack_N >= 0, cluster.rack_N, len(node_N) + node_N)
    zone_N = np.where(cluster.zone_N >= 0, cluster.zone_N, len(node_N) + rack_N)
    return node_N, rack_N, zone_N


def _pairs_sharing(gang_Q: IntArray, place_Q: IntArray, gangs: int) -> FloatArray:
    """Pairs of pods, by gang, that are at one place; counted by place, not pair by pair."""
    width = int(place_Q.max(initial=0)) + 1
    keys, count = np.unique(gang_Q * width + place_Q, return_counts=True)
    return np.bincount(keys // width, count * (count - 1) / 2, minlength=gangs).astype(np.float64)
