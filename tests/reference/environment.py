"""An environment's cluster as it follows from who is placed where: nothing is kept from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import pvariance

from pilotage.model.cluster import Node
from pilotage.model.workload import Pod
from reference.fragmentation import TypicalPod, amounts, fragmented
from reference.machines import WHOLE, Machine, distance
from reference.scores import random_unit

STREAM = 2**24
BASE, SHARE = 4 * STREAM, 5 * STREAM


@dataclass(frozen=True)
class SlowCluster:
    """One moment of an episode."""

    nodes: Sequence[Node]  # by place
    up: Sequence[bool]
    pods: Sequence[Pod]
    node_P: Sequence[int]  # negative: none
    devices_P: Sequence[int]
    seed: int
    traffic: float
    began_with: int  # nodes
    typical: Sequence[TypicalPod]

    def machines(self) -> list[Machine]:
        found = [Machine(node, n, alive=self.up[n]) for n, node in enumerate(self.nodes)]
        for p, pod in enumerate(self.pods):
            if self.node_P[p] >= 0:
                devices = tuple(d for d in range(62) if self.devices_P[p] >> d & 1)
                found[self.node_P[p]].running[p] = (pod.shape, devices)
        return found

    def load(self, n: int) -> float:
        """What a node carries: something of its own, and the traffic of its pods."""
        if self.traffic == 0:
            return 0.0
        asked = sum(pod.shape.cpu_milli for pod in self.pods)
        result = 0.2 * random_unit(self.seed, BASE + n)
        for p, pod in enumerate(self.pods):
            if self.node_P[p] == n:
                share = pod.shape.cpu_milli / asked if asked else 0.0
                result += 2 * random_unit(self.seed, SHARE + p) * share * self.traffic * self.began_with
        return result

    def pairs(self) -> list[tuple[int, int]]:
        """Pods of the same gang."""
        gangs = [pod.gang for pod in self.pods]
        return [(p, q) for q in range(len(gangs)) for p in range(q) if gangs[p] is not None and gangs[p] == gangs[q]]

    def figures(self) -> dict[str, float]:
        up = [machine for machine in self.machines() if machine.alive]
        gpus = sum(machine.node.gpu_count for machine in up)
        left = sum(sum(machine.lefts()) for machine in up) / WHOLE
        unusable = sum(
            fragmented(amounts(machine.free("cpu"), machine.lefts(), machine.node.gpu_model, self.typical))
            for machine in up
        )
        together = [(p, q) for p, q in self.pairs() if self.node_P[p] >= 0 and self.node_P[q] >= 0]
        near = sum(3 - distance(self.nodes[self.node_P[p]], self.nodes[self.node_P[q]]) for p, q in together)
        loads = [self.load(machine.rank) for machine in up]
        return {
            "cpu_variance": pvariance([_used(m.free("cpu"), m.node.cpu_milli) for m in up]),
            "memory_variance": pvariance([_used(m.free("memory"), m.node.memory_bytes) for m in up]),
            "gpu_allocation": (gpus - left) / gpus if gpus else 0.0,
            "fragmentation": unusable / WHOLE / gpus if gpus else 0.0,
            "used_nodes": sum(1 for machine in up if machine.running) / len(up),
            "locality": near / 3 / len(self.pairs()) if self.pairs() else 0.0,
            "load_mean": sum(loads) / len(up),
            "load_variance": pvariance(loads),
        }

    def worth(self, weights: Mapping[str, float]) -> float:
        """The weighted sum of the objectives."""
        figures = self.figures()
        values = {
            "gpu_allocation": figures["gpu_allocation"],
            "fragmentation": -figures["fragmentation"],
            "balance": -(figures["cpu_variance"] + figures["memory_variance"]) / 2,
            "used_nodes": -figures["used_nodes"],
            "locality": figures["locality"],
            "load": -(figures["load_variance"] + figures["load_mean"] ** 2),
        }
        return sum(weight * values[name] for name, weight in weights.items())


def _used(free: int, capacity: int) -> float:
    return (capacity - free) / capacity if capacity > 0 else 0.0
