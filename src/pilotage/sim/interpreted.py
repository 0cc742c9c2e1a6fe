"""Runs of policies in plain Python: the same events and the same chooser, only slower.

A score of scope "node" is asked for again only for nodes that changed, as in the compiled episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.episode import Tape, step
from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.features import POD_DRAW, random_unit
from pilotage.kernels.scene import SEQUENCE, Scene
from pilotage.model.workload import FloatArray, IntArray, Workload
from pilotage.policies.api import DecisionBatch, Policy, device_rule_of
from pilotage.policies.choose import best_node, devices_for, score_candidates, total_scores


@dataclass
class _Row:
    """Scores of one shape, and up to which change of nodes they hold."""

    raw_N: FloatArray
    device_N: IntArray
    seen: int = -1


@dataclass
class Interpreter:
    """Decides pod after pod by calling the policy's `score`."""

    scene: Scene
    workload: Workload
    policy: Policy
    seed: int
    _rows: dict[int, _Row] = field(default_factory=dict)

    def advance(self, tape: Tape, stop_at: int = -1) -> int:
        """As kernels.episode.run_episode."""
        pod = step(self.scene, tape, -1, -1, 0)
        while pod not in (-1, stop_at):
            pod = step(self.scene, tape, pod, *self.decision(pod))
        return pod

    def decision(self, pod: int) -> tuple[int, int]:
        """Node and devices for the pod, (-1, 0) when it fits nowhere."""
        scene = self.scene
        s = int(self.workload.shape_P[pod])
        draw = random_unit(self.seed, int(scene.progress.counter_X[SEQUENCE]))
        scene.shapes.pod_SF[s, POD_DRAW] = draw
        raw_N, device_N = self._scores(s)
        total_N = total_scores(raw_N[None], self.policy.normalise == "minmax")
        node = best_node(total_N, np.arange(len(total_N)))
        if node < 0:
            return -1, 0
        cluster = scene.cluster
        devices = devices_for(
            self.workload.shapes[s],
            cluster.device_left_ND[node],
            int(cluster.device_count_N[node]),
            int(device_N[node]),
            device_rule_of(self.policy),
            draw,
            self.policy.name,
        )
        return node, devices

    def _scores(self, s: int) -> tuple[FloatArray, IntArray]:
        N = len(self.scene.node_NF)
        row = self._rows.setdefault(s, _Row(np.full(N, INFEASIBLE), np.full(N, -1, np.int64)))
        cache = self.scene.cache
        changes = int(cache.counters_2[0])
        if self.policy.scope == "cluster" or row.seen < 0 or changes - row.seen > N:
            stale = np.arange(N)
        else:
            stale = np.unique(cache.changed_L[np.arange(row.seen, changes) % N])
        row.seen = changes
        if len(stale):
            scores = score_candidates(self.policy, self.batch(s, stale))
            row.raw_N[stale], row.device_N[stale] = scores.raw_N, scores.device_N
        return row.raw_N, row.device_N

    def batch(self, s: int, nodes: IntArray) -> DecisionBatch:
        """The decision about shape s on some of the nodes."""
        scene = self.scene
        feasible = np.zeros(len(nodes), np.bool_)
        feasible_some(scene.cluster, scene.shapes, s, nodes, feasible)
        return DecisionBatch(
            pod_BF=scene.shapes.pod_SF[s : s + 1],
            node_BNF=scene.node_NF[nodes][None],
            device_left_BND=scene.cluster.device_left_ND[nodes][None],
            feasible_BN=feasible[None],
        )
