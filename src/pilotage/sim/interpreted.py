"""Runs of policies in plain Python: the same events and the same chooser, only slower.

A score of scope "node" is asked for again only for nodes that changed, as in the compiled episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.episode import Tape, step
from pilotage.kernels.features import POD_DRAW, random_unit
from pilotage.kernels.scene import SEQUENCE, Scene
from pilotage.model.workload import IntArray, Workload
from pilotage.policies.api import DecisionBatch, Policy
from pilotage.policies.deciding import Row, View, decide, refresh


@dataclass
class Interpreter:
    """Decides pod after pod by calling the policy's `score`."""

    scene: Scene
    workload: Workload
    policy: Policy
    seed: int
    _rows: dict[int, Row] = field(default_factory=dict)

    def advance(self, tape: Tape, stop_at: int = -1) -> int:
        """As kernels.episode.run_episode."""
        pod = step(self.scene, tape, -1, -1, 0)
        while pod not in (-1, stop_at):
            pod = step(self.scene, tape, pod, *self.decision(pod))
        return pod

    def decision(self, pod: int) -> tuple[int, int]:
        """Node and devices for the pod, (-1, 0) when it fits nowhere."""
        scene = self.scene
        s, N = int(self.workload.shape_P[pod]), len(scene.node_NF)
        draw = random_unit(self.seed, int(scene.progress.counter_X[SEQUENCE]))
        scene.shapes.pod_SF[s, POD_DRAW] = draw
        if s not in self._rows:
            self._rows[s] = Row.empty(N)
        row, view, cache = self._rows[s], self._view(s), scene.cache
        refresh(self.policy, view, row, cache.changed_L, int(cache.counters_2[0]))
        return decide(self.policy, self.workload.shapes[s], view, row, draw, np.arange(N))

    def batch(self, s: int, nodes: IntArray) -> DecisionBatch:
        """The decision about shape s on some of the nodes."""
        return self._view(s).batch(nodes)

    def _view(self, s: int) -> View:
        return View(self.scene.cluster, self.scene.shapes, s, self.scene.node_NF)
