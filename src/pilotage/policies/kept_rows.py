"""Scores kept per policy and pod shape, for fronts that decide about a cluster that lives on."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from pilotage.kernels.features import POD_DRAW, POD_LATENCY_HARD, POD_LATENCY_SOFT
from pilotage.model.cluster import ClusterState
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.api import Policy
from pilotage.policies.deciding import Row, View, refresh
from pilotage.policies.encode import encode_shapes

ROWS_BYTES = 256 * 1024 * 1024


class Followed(Protocol):
    """A cluster whose changes are noted (see pilotage.kube.cache)."""

    state: ClusterState
    node_NF: FloatArray
    changed_L: IntArray
    changes: int
    epoch: int
    redescribed: list[int]  # nodes that got other labels or taints in this epoch, one after the other


@dataclass
class ShapeRow:
    """A shape in the axes of the cluster, and its scores by one policy."""

    view: View
    row: Row
    described: int  # of the cluster's `redescribed`, so many are known here


@dataclass
class KeptRows:
    """Of one cluster."""

    cluster: Followed
    _rows: OrderedDict[tuple[str, PodShape], ShapeRow] = field(default_factory=OrderedDict)
    _epoch: int = -1

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """After another policy took the place of one."""
        self._rows.clear()

    def refresh(self, policy: Policy, known: ShapeRow, draw: float, latency: tuple[float, float]) -> None:
        """Scores of all nodes as they are now. `latency` are the limits of the pod in question."""
        pod_F = known.view.shapes.pod_SF[0]
        pod_F[POD_DRAW], pod_F[POD_LATENCY_SOFT : POD_LATENCY_HARD + 1] = draw, latency
        refresh(policy, known.view, known.row, self.cluster.changed_L, self.cluster.changes)

    def row(self, key: str, shape: PodShape) -> ShapeRow:
        """The scores that are kept under this key, one for each policy in use, as they were last asked for."""
        cluster = self.cluster
        if self._epoch != cluster.epoch:
            self._rows.clear()
            self._epoch = cluster.epoch
        place = (key, shape)
        known = self._rows.get(place)
        if known is not None:
            self._rows.move_to_end(place)
            for n in cluster.redescribed[known.described :]:
                known.view.shapes.eligible_KN[0, n] = cluster.state.eligible(shape, n)
            known.described = len(cluster.redescribed)
            return known
        N = len(cluster.state.nodes)
        view = View(cluster.state.arrays, encode_shapes(cluster.state, [shape]), 0, cluster.node_NF)
        known = self._rows[place] = ShapeRow(view, Row.empty(N), len(cluster.redescribed))
        while len(self._rows) > max(4, ROWS_BYTES // (17 * max(N, 1))):
            self._rows.popitem(last=False)
        return known
