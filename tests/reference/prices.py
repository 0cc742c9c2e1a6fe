"""Slow twin of kernels.prices: the value of a node's leftover, straight from its formula and the parameters."""

from __future__ import annotations

import numpy as np

from pilotage.model.workload import GPU_MILLI, POD_KINDS, FloatArray, PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.policies.leftover_prices import leftover_functions
from pilotage.policies.priced import CPU_KNOTS, IDLE_KNOTS, MEMORY_KNOTS, SHARE_KNOTS, parts_of
from pilotage.policies.workload_facts import WorkloadFacts
from reference.machines import View
from reference.scores import emptiest_last


class Twin:
    """One vector of parameters on one workload."""

    def __init__(self, parameters: FloatArray, mix: WorkloadMix) -> None:
        self.part, self.mix = parts_of(parameters), mix
        self.facts = WorkloadFacts.of(mix)
        part, facts = self.part, self.facts
        functions = leftover_functions(facts.sizes, facts.pods, facts.whole)
        self.of_left = (part["leftover"] + facts.shared * part["shared_leftover"]) @ functions
        self.scarce = facts.scarcity

    def device(self, left: int) -> float:
        value = float(self.of_left[left]) + self.facts.multi * self.part["multi_whole"][1] * left / GPU_MILLI
        return value + (self.facts.multi * self.part["multi_whole"][0] if left == GPU_MILLI else 0.0)

    def value(self, view: View, lefts: list[int], cpu: int, memory: int) -> float:
        """V of the node of `view` with this left."""
        part, facts = self.part, self.facts
        idle = sum(left == GPU_MILLI for left in lefts)
        total = sum(map(self.device, lefts))
        total += np.interp(idle, IDLE_KNOTS, part["idle"] + facts.multi * part["multi_idle"])
        cpu_capacity, memory_capacity = view.cpu_capacity, view.memory_capacity
        total += np.interp(cpu / cpu_capacity if cpu_capacity else 0, SHARE_KNOTS, part["cpu_share"])
        total += np.interp(memory / memory_capacity if memory_capacity else 0, SHARE_KNOTS, part["memory_share"])
        small = self.small_pods(cpu)
        a0, a1, a2 = part["small_pods"] + self.scarce * part["scarce_small_pods"]
        total += a0 * small
        gpus = sum(lefts) / GPU_MILLI
        if gpus > 0:
            tied = facts.tied_M[self.mix.models.index(view.model)] if view.model else 0.0
            per_gpu = np.interp(
                cpu / (facts.cpu_per_gpu * gpus), CPU_KNOTS, part["cpu"] + self.scarce * part["scarce_cpu"]
            )
            per_gpu += np.interp(
                memory / (facts.memory_per_gpu * gpus),
                MEMORY_KNOTS,
                part["memory"] + self.scarce * part["scarce_memory"],
            )
            per_gpu += a1 * small + a2 * small / (1 + gpus)
            per_gpu += part["model"][0] * tied + part["model"][1] * min(tied, 1) ** 2
            total += gpus * per_gpu
        return float(total)

    def small_pods(self, cpu: int) -> float:
        """Share of the CPU-only pods that fit into the CPU left, in whole steps of half a core."""
        limit = min(cpu // 500, 259) * 500
        pods = [(shape.cpu_milli, n) for shape, n in zip(self.mix.shapes, self.mix.count_S, strict=True)]
        only = [(c, n) for (c, n), shape in zip(pods, self.mix.shapes, strict=True) if shape.gpu_count == 0]
        return sum(n for c, n in only if c <= limit) / max(sum(n for _, n in only), 1)

    def score(self, shape: PodShape, view: View) -> tuple[float, int]:
        """Of the best device for a share pod, the first among equals; else of the devices that are filled first."""
        if shape.kind == "share":
            devices = [d for d, left in enumerate(view.lefts) if left >= shape.gpu_milli]
            scores = [self._score_on(shape, view, [d]) for d in devices]
            best = max(scores)
            return best, next(d for d, score in zip(devices, scores, strict=True) if score > best - 1e-9)
        return self._score_on(shape, view, emptiest_last(view.lefts, shape.gpu_milli, shape.gpu_count)), -1

    def _score_on(self, shape: PodShape, view: View, devices: list[int]) -> float:
        after = [left - shape.gpu_milli * (d in devices) for d, left in enumerate(view.lefts)]
        cpu, memory = view.cpu_free - shape.cpu_milli, view.memory_free - shape.memory_bytes
        change = self.value(view, after, cpu, memory) - self.value(view, view.lefts, view.cpu_free, view.memory_free)
        row = POD_KINDS.index(shape.kind)
        weights = self.part["weights"].reshape(len(POD_KINDS), -1)[row].copy()
        scarce = self.part["scarce_weights"].reshape(len(POD_KINDS), 2)[row]
        weights[[7, 0]] += self.scarce * scarce  # CPU per GPU, CPU left
        return change + float(weights @ self._figures(shape, view, devices, after))

    def _figures(self, shape: PodShape, view: View, devices: list[int], after: list[int]) -> FloatArray:
        cpu, memory = view.cpu_free - shape.cpu_milli, view.memory_free - shape.memory_bytes
        count, gpus = len(view.lefts), sum(after) / GPU_MILLI
        cpu_share = cpu / view.cpu_capacity if view.cpu_capacity else 0.0
        memory_share = memory / view.memory_capacity if view.memory_capacity else 0.0
        ratio = min(cpu / (self.facts.cpu_per_gpu * gpus), 3.0) if gpus > 0 else 0.0
        untouched = view.cpu_free == view.cpu_capacity and all(left == GPU_MILLI for left in view.lefts)
        return np.array(
            [
                cpu / (8 * self.facts.cpu_per_gpu),
                memory_share,
                gpus / 8,
                abs(cpu_share - (gpus / count if count else 0.0)),
                after[devices[0]] / GPU_MILLI if shape.kind == "share" else 0.0,
                sum(left == GPU_MILLI for left in after) / 8,
                float(untouched),
                ratio,
                count / 8,
                memory_share - cpu_share,
            ]
        )
