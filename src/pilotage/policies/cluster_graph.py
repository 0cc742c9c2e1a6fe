"""Clusters as a graph for attention: workers hang on racks, racks on zones, zones on one vertex for the whole cluster.

Several clusters are one graph of separate parts. Edges lead both ways, and each vertex attends to itself, so their
number grows with the number of workers and not with its square. Nodes without a rack share one rack of their zone,
nodes without a zone one zone: a cluster without labels is one zone with one rack.

Letters: W workers (the candidates of all clusters, in order), U vertices above them (racks, then zones, then
clusters), V all vertices (workers first), E edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.model.workload import BoolArray, IntArray

LEVELS = ("rack", "zone", "cluster")


class ClusterGraph(NamedTuple):
    """Who attends to whom."""

    source_E: IntArray
    target_E: IntArray
    above_LW: IntArray  # for each worker its rack, zone and cluster, as numbers in U
    level_U: IntArray  # index into LEVELS

    @property
    def workers(self) -> int:
        return int(self.above_LW.shape[1])

    @property
    def members_U(self) -> IntArray:
        """How many workers are below each vertex."""
        return np.bincount(self.above_LW.ravel(), minlength=len(self.level_U))


def cluster_graph(mask_BN: BoolArray, rack_BN: IntArray, zone_BN: IntArray) -> ClusterGraph:
    """The graph of B clusters; only nodes under the mask are in it."""
    cluster_W = np.nonzero(mask_BN)[0]
    zone_W, cluster_Z = _parts(cluster_W, zone_BN[mask_BN])
    rack_W, zone_K = _parts(zone_W, rack_BN[mask_BN])
    W, K, Z, B = len(cluster_W), len(zone_K), len(cluster_Z), len(mask_BN)
    below = np.arange(W + K + Z)
    above = W + np.concatenate([rack_W, K + zone_K, K + Z + cluster_Z])
    itself = np.arange(W + K + Z + B)
    return ClusterGraph(
        source_E=np.concatenate([below, above, itself]),
        target_E=np.concatenate([above, below, itself]),
        above_LW=np.stack([rack_W, K + zone_W, K + Z + cluster_W]),
        level_U=np.repeat(np.arange(len(LEVELS)), [K, Z, B]),
    )


def _parts(group_W: IntArray, label_W: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of the distinct (group, label) pairs: that of each worker, and the group of each pair."""
    lowest = label_W.min(initial=0)
    span = label_W.max(initial=0) - lowest + 1
    pairs, pair_W = np.unique(group_W * span + label_W - lowest, return_inverse=True)
    return pair_W, pairs // span
