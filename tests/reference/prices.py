"""Slow twin of kernels.prices: the value of a node's leftover, straight from its formula and the parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pilotage.model.workload import GPU_MILLI, POD_KINDS, FloatArray, PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.policies.idle_prices import idle_functions
from pilotage.policies.leftover_prices import leftover_functions
from pilotage.policies.priced import CPU_KNOTS, IDLE_KNOTS, IDLE_SHARE_KNOTS, MEMORY_KNOTS, SHARE_KNOTS, parts_of
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
        self.scarce, self.tight, self.only = facts.scarcity, facts.memory_scarcity, facts.cpu_only

    def device(self, left: int) -> float:
        value = float(self.of_left[left]) + self.facts.multi * self.part["multi_whole"][1] * left / GPU_MILLI
        return float(value + (self.facts.multi * self.part["multi_whole"][0] if left == GPU_MILLI else 0.0))

    def value(self, view: View, lefts: list[int], cpu: int, memory: int) -> float:
        """V of the node of `view` with this left."""
        part, facts = self.part, self.facts
        idle = sum(left == GPU_MILLI for left in lefts)
        total = float(sum(map(self.device, lefts)))
        total += np.interp(idle, IDLE_KNOTS, part["idle"] + facts.multi * part["multi_idle"])
        each = part["idle_share"] + facts.multi * part["multi_idle_share"]
        total += len(lefts) * np.interp(idle / len(lefts) if lefts else 0.0, IDLE_SHARE_KNOTS, each)
        several = part["several"] + facts.multi * part["multi_several"] + facts.crowding * part["crowded_several"]
        total += float(several @ idle_functions(facts.several, facts.several_gpu)[:, idle])
        cpu_capacity, memory_capacity = view.cpu_capacity, view.memory_capacity
        total += np.interp(cpu / cpu_capacity if cpu_capacity else 0, SHARE_KNOTS, part["cpu_share"])
        total += np.interp(memory / memory_capacity if memory_capacity else 0, SHARE_KNOTS, part["memory_share"])
        t0, t1, t2 = self.by_cpu(cpu)
        total += t0
        gpus = sum(lefts) / GPU_MILLI
        if gpus > 0:
            tied = facts.tied_M[self.mix.models.index(view.model)] if view.model else 0.0
            per_gpu = self.cpu_ratio(cpu / (facts.cpu_per_gpu * gpus))
            per_gpu += self.memory_ratio(memory / (facts.memory_per_gpu * gpus))
            per_gpu += t1 + t2 / (1 + gpus)
            per_gpu += part["model"] @ [tied, min(tied, 1) ** 2, min(tied, 1) ** 0.5, min(tied / 0.05, 1)]
            total += gpus * per_gpu
        return float(total)

    def cpu_ratio(self, ratio: float) -> float:
        part = self.part
        curve = part["cpu"] + self.scarce * part["scarce_cpu"] + self.only * part["only_cpu"]
        served = _between_steps(ratio, self.facts.served_by_cpu)
        return float(np.interp(ratio, CPU_KNOTS, curve)) + float(
            (part["served_by_cpu"] + self.scarce * part["scarce_served"]) @ served
        )

    def memory_ratio(self, ratio: float) -> float:
        part, facts = self.part, self.facts
        curve = part["memory"] + self.scarce * part["scarce_memory"] + self.tight * part["tight_memory"]
        served = _between_steps(ratio, facts.served_by_memory)
        return float(np.interp(ratio, MEMORY_KNOTS, curve)) + float(
            (part["served_by_memory"] + self.tight * part["tight_served"]) @ served
        )

    def by_cpu(self, cpu: int) -> FloatArray:
        """t0, t1 and t2."""
        small, with_gpu = (
            self.part[name] + self.scarce * self.part[f"scarce_{name}"] + self.only * self.part[f"only_{name}"]
            for name in ("small_pods", "gpu_pods")
        )
        found: FloatArray = self.small_pods(cpu) * small + self.gpu_pods(cpu) * with_gpu
        found[0] += self.chunks(cpu)
        return found

    def chunks(self, cpu: int) -> float:
        """Of the CPU left, in whole steps: what pods without GPU could use of it."""
        limit = min(cpu // 500, 259) * 500
        only = [(s.cpu_milli, n) for s, n in zip(self.mix.shapes, self.mix.count_S, strict=True) if s.gpu_count == 0]
        asked = sum(max(c, 1) * n for c, n in only) or 1
        fits = sum(max(c, 1) * n for c, n in only if max(c, 1) <= limit) / asked
        over = sum(max(c, 1) * n * (limit % max(c, 1)) for c, n in only) / asked / self.facts.cpu_per_gpu
        weight = self.part["cpu_chunks"] + self.scarce * self.part["scarce_cpu_chunks"]
        return float((weight + self.only * self.part["only_cpu_chunks"]) @ [fits, over])

    def gpu_pods(self, cpu: int) -> float:
        """Share of the GPU that is asked for by pods which fit into the CPU left."""
        limit = min(cpu // 500, 259) * 500
        asked = [(s.cpu_milli, s.total_gpu_milli * n) for s, n in zip(self.mix.shapes, self.mix.count_S, strict=True)]
        return float(sum(gpu for c, gpu in asked if c <= limit) / max(sum(gpu for _, gpu in asked), 1))

    def small_pods(self, cpu: int) -> float:
        """Share of the CPU-only pods that fit into the CPU left, in whole steps of half a core."""
        limit = min(cpu // 500, 259) * 500
        pods = [(shape.cpu_milli, n) for shape, n in zip(self.mix.shapes, self.mix.count_S, strict=True)]
        only = [(c, n) for (c, n), shape in zip(pods, self.mix.shapes, strict=True) if shape.gpu_count == 0]
        return float(sum(n for c, n in only if c <= limit) / max(sum(n for _, n in only), 1))

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
        scarce, only = (self.part[f"{name}_weights"].reshape(len(POD_KINDS), 3)[row] for name in ("scarce", "only"))
        weights[[7, 0, 10]] += self.scarce * scarce + self.only * only  # CPU per GPU, CPU left, full
        if shape.gpu_count == 0:
            bulk = min(shape.cpu_milli / self.facts.cpu_per_node, 0.5)
            weights[[7, 0]] += bulk * self.part["bulky_weights"]
            weights[[7, 0, 10]] += self.scarce**2 * self.part["very_scarce_weights"]
        weights[1] += self.tight * self.part["tight_weights"][row]  # memory left
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
                float(gpus == 0),
            ]
        )


def _between_steps(ratio: float, functions: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """The functions at the nearest steps of a table, linear between them, constant beyond 6."""
    ratio = min(ratio, 6 - 0.001 / 100)
    low = int(ratio * 100)
    part = ratio * 100 - low
    below, above = functions(np.array([low, low + 1]) / 100).T
    between: FloatArray = (1 - part) * below + part * above
    return between
