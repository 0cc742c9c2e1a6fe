"""Trying policies on a workload before it comes: a cluster like the real one is filled with pods drawn from the mix.

What is tried is only what differs between policies that price leftovers; labels, taints and other resources play no
part. The same mix and cluster always give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from pilotage.kernels.choosing import Rules
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import GPU_MILLI, IntArray, PodShape
from pilotage.policies.api import ClusterSize, DeviceRule, WorkloadMix
from pilotage.policies.heuristics import FGD
from pilotage.policies.priced import Priced
from pilotage.policies.refusals import L0_OF_BASELINE, Refusals, cost_of, mean_of, refusals_of
from pilotage.policies.scenes import Filling
from pilotage.policies.workload_facts import WorkloadFacts

MOST_NODES = 1500  # of a larger cluster so many are drawn
LOAD = 1.3  # offered, of the GPU capacity
MOST_PODS = 40_000
FEWEST_ORDERS, MOST_ORDERS = 4, 8
ENOUGH_PODS = 40_000  # in all orders together
FINALISTS = 3
COST_OF_FAILED = 4.0
STRICTER = 10.0  # times as much do refusals cost where they still do after practice


class Rehearsal:
    """A workload to try policies on. Pods come in as many orders as are asked for, the same ones each time."""

    def __init__(self, mix: WorkloadMix) -> None:
        self._weight_of_cost = 1.0
        self._mix = plain_mix(mix)
        self._gpu_S = np.array([shape.total_gpu_milli for shape in self._mix.shapes], np.int64)
        self._facts = WorkloadFacts.of(self._mix)
        self._stages: list[_Stage] = []

    @property
    def anything_to_fill(self) -> bool:
        cluster = self._mix.cluster
        return bool(cluster.gpus and cluster.kinds and (self._gpu_S * self._mix.count_S).any())

    @property
    def pods(self) -> int:
        """Of one order, about."""
        return len(self._stage(0).shape_P)

    def try_out(self, policy: Priced, order: int) -> Refusals:
        """What it makes of the pods in this order."""
        return self._stage(order).filled(policy.priced_by(self._facts).rules, policy.device_rule)

    def value(self, runs: Sequence[Refusals], first: int = 0) -> float:
        """Of what came out of orders one after the other, from the first on: percent of the GPU capacity allocated more
        than by FGD, less what refusals cost that FGD avoids. On the mean: a few failed pods more in one are chance."""
        own, baseline = mean_of(runs), self._by_fgd(range(first, first + len(runs)))
        cost = cost_of(own, baseline, COST_OF_FAILED)
        return own.allocation - baseline.allocation - self._weight_of_cost * cost

    def cost_of_refusals(self, policy: Priced, orders: int) -> float:
        """What `value` takes off for what the policy refuses in the first orders and FGD does not."""
        own = mean_of([self.try_out(policy, order) for order in range(orders)])
        return self._weight_of_cost * cost_of(own, self._by_fgd(range(orders)), COST_OF_FAILED)

    def stricter(self) -> Rehearsal:
        """The same pods and orders, where refusals cost more."""
        other = copy(self)
        other._weight_of_cost = STRICTER
        return other

    def _by_fgd(self, orders: range) -> Refusals:
        return mean_of([self._stage(order).by_fgd for order in orders])

    def _stage(self, order: int) -> _Stage:
        while len(self._stages) <= order:
            random = np.random.Generator(np.random.PCG64(len(self._stages)))
            self._stages.append(_Stage(self._mix, self._gpu_S, random))
        return self._stages[order]


def plain_mix(mix: WorkloadMix) -> WorkloadMix:
    """What pods ask for of CPU, memory and GPUs, equal ones together, in an order of its own: the order in which pods
    were seen is chance, and is not to change what is found for them."""
    pods: dict[PodShape, int] = {}
    for shape, count in zip(mix.shapes, mix.count_S.tolist(), strict=True):
        asked = PodShape(shape.cpu_milli, shape.memory_bytes, shape.gpu_milli, shape.gpu_count, shape.gpu_models)
        pods[asked] = pods.get(asked, 0) + count
    shapes = sorted(pods, key=lambda s: (s.gpu_count, s.gpu_milli, s.cpu_milli, s.memory_bytes, s.gpu_models))
    return replace(mix, shapes=tuple(shapes), count_S=np.array([pods[shape] for shape in shapes], np.int64))


def race(policies: Sequence[Priced], rehearsal: Rehearsal) -> tuple[int, float]:
    """Which policy fills the cluster best, and its value: after each order the worse half drops out."""
    field, runs_V = list(range(len(policies))), [list[Refusals]() for _ in policies]
    for order in range(orders_of(rehearsal)):
        for v in field:
            runs_V[v].append(rehearsal.try_out(policies[v], order))
        best_first = sorted(field, key=lambda v: -rehearsal.value(runs_V[v]))
        field = sorted(best_first[: max(len(field) // 2, FINALISTS)])
    best = max(field, key=lambda v: rehearsal.value(runs_V[v]))
    return best, rehearsal.value(runs_V[best])


def orders_of(rehearsal: Rehearsal) -> int:
    """How many orders tell policies apart: more where few pods come."""
    return min(max(ENOUGH_PODS // max(rehearsal.pods, 1), FEWEST_ORDERS), MOST_ORDERS)


class _Stage:
    """A cluster, and pods in the order in which they come."""

    def __init__(self, mix: WorkloadMix, gpu_S: IntArray, random: np.random.Generator) -> None:
        state = ClusterState(_nodes_like(mix.cluster, random))
        self.shape_P = _drawn_pods(mix.count_S, gpu_S, state.gpu_capacity_milli, random)
        here = mix.on(state)
        self._filling = Filling.of(state, here.shapes, self.shape_P)
        self._devices = state.gpu_capacity_milli // GPU_MILLI
        fgd = FGD.prepare(here)
        node_P = self._placed(fgd.rules, fgd.device_rule)
        self._forced_load = L0_OF_BASELINE * self._refusals(node_P, 1.0).allocation / 100
        self.by_fgd = self._refusals(node_P, self._forced_load)

    def filled(self, rules: Rules, device_rule: DeviceRule) -> Refusals:
        return self._refusals(self._placed(rules, device_rule), self._forced_load)

    def _placed(self, rules: Rules, device_rule: DeviceRule) -> IntArray:
        """Where each pod goes, -1 = nowhere."""
        return self._filling.filled(rules, device_rule).progress.node_P

    def _refusals(self, node_P: IntArray, forced_load: float) -> Refusals:
        return refusals_of(self._filling.empty.shapes, self.shape_P, node_P, self._devices, forced_load)


def _nodes_like(cluster: ClusterSize, random: np.random.Generator) -> list[Node]:
    """The nodes of the cluster, or as many of them as will do, in an order of chance."""
    kind_N = np.repeat(np.arange(len(cluster.kinds)), [kind.nodes for kind in cluster.kinds])
    drawn = [cluster.kinds[k] for k in kind_N[random.permutation(len(kind_N))[:MOST_NODES]]]
    return [
        Node(f"{n}", kind.cpu_milli, kind.memory_bytes, kind.pods, kind.gpu_count, kind.gpu_model)
        for n, kind in enumerate(drawn)
    ]


def _drawn_pods(count_S: IntArray, gpu_S: IntArray, capacity: int, random: np.random.Generator) -> IntArray:
    """Shapes of pods in order of arrival: about as many of each as its share of the mix, as chance will have it."""
    copies = min(LOAD * capacity / float((gpu_S * count_S).sum()), MOST_PODS / float(count_S.sum()))
    pods_S = random.poisson(count_S * copies)
    drawn: IntArray = random.permutation(np.repeat(np.arange(len(count_S)), pods_S))
    return drawn
