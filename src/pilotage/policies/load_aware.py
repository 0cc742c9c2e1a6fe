"""Policies that look at what is measured on nodes: traffic, connections, use, latency.

Where nothing fresh is measured, all nodes have the same columns (see pilotage.load.columns) and so the same score: such
a policy alone leaves the choice to the order of nodes, in a sum it leaves it to the other parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Policy, Scope, WorkloadMix

Score = Callable[[DecisionBatch], FloatArray]


@dataclass(frozen=True)
class LoadAware:
    """Scores by measured columns alone. The score of a node is kept until the node or its measurements change."""

    name: str
    summary: str
    features: FeatureSchema
    scores: Score
    scope: Scope = "node"
    normalise: Normalise = "minmax"

    def prepare(self, mix: WorkloadMix) -> LoadAware:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = self.scores(batch)


def _least(*columns: str) -> Score:
    """Minus the sum of the columns."""
    return lambda batch: -np.sum([batch.node(column) for column in columns], axis=0)


def _latency(batch: DecisionBatch) -> FloatArray:
    """1 up to the soft limit, 0 at the hard one, falling between and, more slowly, beyond.

    A pod without a hard limit has one at twice its soft limit; without both, lower is better up to a second.
    """
    latency_BN, soft_B1, hard_B1 = batch.node("load_latency"), batch.pod("latency_soft"), batch.pod("latency_hard")
    reach_B1 = np.where(hard_B1 > 0, hard_B1, np.where(soft_B1 > 0, 2 * soft_B1, 1.0))
    from_B1 = np.minimum(soft_B1, reach_B1)
    width_B1 = np.maximum(reach_B1 - from_B1, 1e-9)
    between_BN = np.clip((reach_B1 - latency_BN) / width_B1, 0.0, 1.0)
    beyond_BN = np.maximum(latency_BN - reach_B1, 0.0)
    score_BN: FloatArray = between_BN - beyond_BN / (beyond_BN + reach_B1)
    return score_BN


LOAD_AWARE: tuple[Policy, ...] = (
    LoadAware(
        "least-network@1",
        "least measured traffic, received and sent",
        FeatureSchema(node=("load_receive", "load_transmit")),
        _least("load_receive", "load_transmit"),
    ),
    LoadAware(
        "least-connections@1",
        "fewest open connections",
        FeatureSchema(node=("load_connections",)),
        _least("load_connections"),
    ),
    LoadAware(
        "least-load@1",
        "lowest measured use: the busiest of CPU, GPU and network decides",
        FeatureSchema(node=("load",)),
        _least("load"),
    ),
    LoadAware(
        "latency@1",
        "lowest latency within the pod's limits (annotations pilotage.dev/latency-soft and latency-hard)",
        FeatureSchema(pod=("latency_soft", "latency_hard"), node=("load_latency",)),
        _latency,
        scope="cluster",  # limits are those of a pod, not of its shape
        normalise="none",
    ),
)
