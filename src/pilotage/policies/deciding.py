"""Decisions pod by pod, with scores kept per shape: asked for again only for nodes that changed.

Fronts that do not run inside the compiled episode share this: runs of policies in plain Python, the live scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE, best_few
from pilotage.kernels.feasibility import ShapeArrays, feasible_some
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import BoolArray, FloatArray, IntArray, PodShape
from pilotage.policies.api import DecisionBatch, Policy, device_rule_of
from pilotage.policies.choose import best_node, devices_for, score_candidates, total_scores


@dataclass
class Row:
    """Scores of one shape, and up to which change of nodes they hold."""

    raw_N: FloatArray
    device_N: IntArray
    seen: int = -1

    @classmethod
    def empty(cls, nodes: int) -> Row:
        return cls(np.full(nodes, INFEASIBLE), np.full(nodes, -1, np.int64))


@dataclass(frozen=True, slots=True)
class View:
    """Arrays that a decision about shape s reads."""

    cluster: ClusterArrays
    shapes: ShapeArrays
    s: int
    node_NF: FloatArray

    def batch(self, nodes: IntArray) -> DecisionBatch:
        """The decision on some of the nodes."""
        feasible = np.zeros(len(nodes), np.bool_)
        feasible_some(self.cluster, self.shapes, self.s, nodes, feasible)
        return DecisionBatch(
            pod_BF=self.shapes.pod_SF[self.s : self.s + 1],
            node_BNF=self.node_NF[nodes][None],
            device_left_BND=self.cluster.device_left_ND[nodes][None],
            feasible_BN=feasible[None],
        )


def refresh(policy: Policy, view: View, row: Row, changed_L: IntArray, changes: int) -> None:
    """Brings the row up to date. `changed_L` is the ring of changed nodes, `changes` how many there were in all."""
    N = len(row.raw_N)
    if policy.scope == "cluster" or row.seen < 0 or changes - row.seen > N:
        stale = np.arange(N)
    else:
        changed_N = np.zeros(N, np.bool_)
        changed_N[changed_L[np.arange(row.seen, changes) % N]] = True
        stale = np.flatnonzero(changed_N)
    if len(stale):
        scores = score_candidates(policy, view.batch(stale))
        row.raw_N[stale], row.device_N[stale] = scores.raw_N, scores.device_N
    row.seen = changes  # only now: a policy that raised is asked for the same nodes again


def totals(
    policy: Policy, row: Row, allowed_N: BoolArray | None = None, wish_N: FloatArray | None = None
) -> FloatArray:
    """What is compared: the row's scores in their range, and wishes. -inf for nodes that are no candidates.

    `allowed_N` takes candidates out for reasons that the arrays do not know, `wish_N` is added to their totals.
    """
    raw_N = row.raw_N if allowed_N is None else np.where(allowed_N, row.raw_N, INFEASIBLE)
    # Wishes are points from 0 to 100 each: beside them the policy's score must be in that range too.
    if policy.normalise != "minmax" and wish_N is None:
        return raw_N + 0.0  # a copy, with no zero below zero
    total_N = total_scores(raw_N[None], True)
    if wish_N is not None:
        total_N += wish_N
    return total_N


def decide(
    policy: Policy,
    shape: PodShape,
    view: View,
    row: Row,
    draw: float,
    rank_N: IntArray,
    *,
    allowed_N: BoolArray | None = None,
    wish_N: FloatArray | None = None,
) -> tuple[int, int]:
    """Node and devices by a row that is up to date; (-1, 0) when the pod fits nowhere."""
    return choose(policy, shape, view, row, draw, rank_N, totals(policy, row, allowed_N, wish_N))


def choose(
    policy: Policy, shape: PodShape, view: View, row: Row, draw: float, rank_N: IntArray, total_N: FloatArray
) -> tuple[int, int]:
    """Node and devices by totals."""
    node = best_node(total_N, rank_N)
    if node < 0:
        return -1, 0
    cluster = view.cluster
    devices = devices_for(
        shape,
        cluster.device_left_ND[node],
        int(cluster.device_count_N[node]),
        int(row.device_N[node]),
        device_rule_of(policy),
        draw,
        policy.name,
    )
    return node, devices


def best_totals(total_N: FloatArray, rank_N: IntArray, count: int) -> list[int]:
    """The candidates with the highest totals, as the chooser prefers them: by rank among equals."""
    best_K = np.empty(count, np.int64)
    return [int(n) for n in best_K[: best_few(total_N, rank_N, best_K)]]
