"""Trying policies on a workload before it comes: a cluster like the real one is filled with pods drawn from the mix.

What is tried is only what differs between policies that price leftovers; labels, taints and other resources play no
part. The same mix and cluster always give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pilotage.kernels.devices import DEVICE_RULES
from pilotage.kernels.episode import empty_tape, run_episode
from pilotage.kernels.feasibility import ShapeArrays
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import PolicyError
from pilotage.model.workload import GPU_MILLI, IntArray, PodShape
from pilotage.policies.api import ClusterSize, Policy, WorkloadMix, compiled_rules, device_rule_of
from pilotage.policies.heuristics import FGD
from pilotage.policies.refusals import L0_OF_BASELINE, Refusals, cost_of, refusals_of
from pilotage.policies.scenes import arrivals_only, scene_of, series_over

MOST_NODES = 1500  # a larger cluster is scaled down
LOAD = 1.3  # offered, of the GPU capacity
MOST_PODS = 40_000
FEWEST_ORDERS, MOST_ORDERS = 4, 8
ENOUGH_PODS = 40_000  # in all orders together
FINALISTS = 3
COST_OF_FAILED = 2.0
CLEARLY_BETTER = 0.5  # percent of capacity; less may be chance


def best_rehearsed(policies: Sequence[Policy], mix: WorkloadMix) -> int | None:
    """Which of the policies (not prepared yet) fills the cluster best; the first where there is nothing to fill.

    None where FGD fills it clearly better than any of them. A race: pods come in several orders, and after each the
    worse half of the policies drops out.
    """
    gpu_S = np.array([shape.total_gpu_milli for shape in mix.shapes], np.int64)
    if len(policies) == 1 or not mix.cluster.gpus or not mix.cluster.kinds or not (gpu_S * mix.count_S).any():
        return 0
    field, value_V, by_fgd, order, orders = list(range(len(policies))), np.zeros(len(policies)), 0.0, 0, 1
    while order < orders:
        stage = _Stage.drawn(mix, gpu_S, np.random.Generator(np.random.PCG64(order)))
        of_fgd, values = stage.values([policies[v] for v in field])
        by_fgd += of_fgd
        value_V[field] += values
        field = sorted(sorted(field, key=lambda v: -value_V[v])[: max(len(field) // 2, FINALISTS)])
        enough = ENOUGH_PODS // max(len(stage.shape_P), 1)
        order, orders = order + 1, min(max(enough, FEWEST_ORDERS), MOST_ORDERS)
    best = max(field, key=lambda v: value_V[v])
    return best if value_V[best] >= by_fgd - CLEARLY_BETTER * orders else None


@dataclass(frozen=True)
class _Stage:
    """A cluster, and pods in the order in which they come."""

    mix: WorkloadMix  # of what is drawn from; its shapes without what plays no part
    nodes: Sequence[Node]
    shape_P: IntArray

    @classmethod
    def drawn(cls, mix: WorkloadMix, gpu_S: IntArray, random: np.random.Generator) -> _Stage:
        shapes = tuple(
            PodShape(shape.cpu_milli, shape.memory_bytes, shape.gpu_milli, shape.gpu_count, shape.gpu_models)
            for shape in mix.shapes
        )
        nodes = _nodes_like(mix.cluster, random)
        capacity = GPU_MILLI * sum(node.gpu_count for node in nodes)
        return cls(replace(mix, shapes=shapes), nodes, _drawn_pods(mix.count_S, gpu_S, capacity, random))

    def values(self, policies: Sequence[Policy]) -> tuple[float, list[float]]:
        """Percent of the GPU capacity that FGD allocates, and each policy, less what refusals cost that FGD avoids."""
        by_fgd = self.filled(FGD)
        forced_load = L0_OF_BASELINE * by_fgd.refusals(1.0).allocation / 100
        baseline = by_fgd.refusals(forced_load)
        found = [self.filled(policy).refusals(forced_load) for policy in policies]
        return baseline.allocation, [own.allocation - cost_of(own, baseline, COST_OF_FAILED) for own in found]

    def filled(self, policy: Policy) -> _Filled:
        state = ClusterState(self.nodes)
        here = self.mix.on(state)
        ready = policy.prepare(here)
        rules = compiled_rules(ready)
        if rules is None:
            raise PolicyError(f"{policy.name}: only compiled policies can be rehearsed")
        scene = scene_of(state, here.shapes, here, rules, arrivals_only(self.shape_P), series_over())
        run_episode(scene, rules, DEVICE_RULES.index(device_rule_of(ready)), 0, empty_tape(0, 0), -1)
        devices = int(state.arrays.device_count_N.sum())
        return _Filled(scene.shapes, self.shape_P, scene.progress.node_P, devices)


class _Filled(NamedTuple):
    """A cluster after its pods have come."""

    shapes: ShapeArrays
    shape_P: IntArray
    node_P: IntArray
    devices: int

    def refusals(self, forced_load: float) -> Refusals:
        return refusals_of(self.shapes, self.shape_P, self.node_P, self.devices, forced_load)


def _nodes_like(cluster: ClusterSize, random: np.random.Generator) -> list[Node]:
    """Kinds of nodes in the proportions of the cluster, in an order of chance."""
    whole = sum(kind.nodes for kind in cluster.kinds)
    scale = min(1.0, MOST_NODES / whole)
    nodes = [
        Node(f"{k}-{i}", kind.cpu_milli, kind.memory_bytes, gpu_count=kind.gpu_count, gpu_model=kind.gpu_model)
        for k, kind in enumerate(cluster.kinds)
        for i in range(max(1, round(scale * kind.nodes)))
    ]
    return [nodes[n] for n in random.permutation(len(nodes))]


def _drawn_pods(count_S: IntArray, gpu_S: IntArray, capacity: int, random: np.random.Generator) -> IntArray:
    """Shapes of pods in order of arrival: as many of each as its share of the mix, rounded by chance."""
    copies = min(LOAD * capacity / float((gpu_S * count_S).sum()), MOST_PODS / float(count_S.sum()))
    pods_S = np.floor(count_S * copies + random.random(len(count_S))).astype(np.int64)
    drawn: IntArray = random.permutation(np.repeat(np.arange(len(count_S)), pods_S))
    return drawn
