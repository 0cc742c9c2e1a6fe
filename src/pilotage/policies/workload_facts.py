"""What a policy can know of a workload before it runs: figures of the mix of pods and of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray
from pilotage.policies.api import WorkloadMix

PLENTY, RANGE = 0.82, 0.205  # CPU or memory asked for at full GPU load / capacity: scarce above PLENTY
MOST_SCARCE = 2.0  # beyond this a workload is no longer about GPUs
UNCROWDED = 0.6  # of the GPU that nodes have for pods with several devices


@dataclass(frozen=True)
class WorkloadFacts:
    """Figures that do not depend on the order of pods."""

    cpu_per_gpu: float  # milli, over pods with GPU
    memory_per_gpu: float  # bytes
    scarcity: float  # of CPU, 0 = plenty
    memory_scarcity: float
    cpu_only: float  # share of the CPU that pods without GPU ask for
    cpu_per_node: float  # milli
    multi: float  # share of the GPU that pods with several devices ask for
    shared: float  # share of the GPU that pods with a part of a device ask for
    sizes: tuple[int, ...]  # of share pods, milli
    pods: tuple[int, ...]  # of each size
    whole: int  # devices asked for as a whole
    tied_M: FloatArray  # GPU asked for of this model alone / what there is of it
    several: tuple[int, ...]  # devices of pods with several
    several_gpu: tuple[float, ...]  # share of their GPU that is asked for in each number
    crowding: float  # how much of the room for pods with several they ask for, 0 = at most UNCROWDED, 1 = all
    cpu_only_cpu_P: IntArray  # CPU of the CPU-only shapes, milli
    cpu_only_pods_P: IntArray  # how many pods have each
    gpu_cpu_P: IntArray  # CPU of the shapes with GPU, milli
    gpu_memory_P: FloatArray  # bytes
    gpu_P: FloatArray  # GPU that all pods of the shape ask for, devices
    each_gpu_P: FloatArray  # that one of them asks for

    @classmethod
    def of(cls, mix: WorkloadMix) -> WorkloadFacts:
        count_S, shapes = mix.count_S, mix.shapes
        milli_S, devices_S, cpu_S, memory_S = (
            np.array([getattr(shape, name) for shape in shapes], np.int64)
            for name in ("gpu_milli", "gpu_count", "cpu_milli", "memory_bytes")
        )
        gpu_S = milli_S * devices_S / GPU_MILLI * count_S
        with_gpu, total = devices_S > 0, max(float(gpu_S.sum()), 1e-9)
        all_cpu, all_memory = cpu_S * count_S, memory_S.astype(np.float64) * count_S
        at_full_load = mix.cluster.gpus / total
        shares = (devices_S == 1) & (milli_S < GPU_MILLI)
        sizes = np.unique(milli_S[shares & (count_S > 0)])
        many = np.unique(devices_S[(devices_S > 1) & (count_S > 0)])
        of_many = [float(gpu_S[devices_S == number].sum()) for number in many]
        return cls(
            cpu_per_gpu=max(float(all_cpu[with_gpu].sum()) / total, 1.0),
            memory_per_gpu=max(float(all_memory[with_gpu].sum()) / total, 1.0),
            scarcity=_scarcity(float(all_cpu.sum()) * at_full_load, mix.cluster.cpu_milli),
            memory_scarcity=_scarcity(float(all_memory.sum()) * at_full_load, mix.cluster.memory_bytes),
            cpu_only=float(all_cpu[~with_gpu].sum()) / max(float(all_cpu.sum()), 1.0),
            cpu_per_node=max(mix.cluster.cpu_milli / max(sum(mix.cluster.nodes_D), 1), 1.0),
            multi=float(gpu_S[devices_S > 1].sum()) / total,
            shared=float(gpu_S[shares].sum()) / total,
            sizes=tuple(sizes.tolist()),
            pods=tuple(int(count_S[shares & (milli_S == size)].sum()) for size in sizes),
            whole=int(gpu_S[with_gpu & (milli_S == GPU_MILLI)].sum()),
            tied_M=_tied(mix, gpu_S * at_full_load),
            several=tuple(many.tolist()),
            several_gpu=tuple(gpu / sum(of_many) for gpu in of_many),
            crowding=_crowding(mix, many, np.array(of_many) * at_full_load),
            cpu_only_cpu_P=cpu_S[~with_gpu],
            cpu_only_pods_P=count_S[~with_gpu],
            gpu_cpu_P=cpu_S[with_gpu],
            gpu_memory_P=memory_S[with_gpu].astype(np.float64),
            gpu_P=gpu_S[with_gpu],
            each_gpu_P=(milli_S * devices_S)[with_gpu] / GPU_MILLI,
        )

    def cpu_only_within(self, limits: IntArray) -> FloatArray:
        """Share of the CPU-only pods that ask for at most each limit of CPU."""
        return _share_within(self.cpu_only_cpu_P, self.cpu_only_pods_P, limits)

    def cpu_chunks(self, left_Q: IntArray) -> FloatArray:
        """Two functions of CPU left on a node. Share of the CPU that CPU-only pods ask for in pods which fit; and what
        is left over when pods of one size fill it, on the mean over the CPU asked for, in units of `cpu_per_gpu`."""
        cpu_P = np.maximum(self.cpu_only_cpu_P, 1)
        asked_P = cpu_P * self.cpu_only_pods_P.astype(np.float64)
        over_PQ = left_Q[None] % cpu_P[:, None]
        over_Q = asked_P @ over_PQ / max(asked_P.sum(), 1.0) / self.cpu_per_gpu
        return np.array([_share_within(cpu_P, asked_P, left_Q), over_Q])

    def gpu_within(self, limits: IntArray) -> FloatArray:
        """Share of the GPU that is asked for by pods with at most each limit of CPU."""
        return _share_within(self.gpu_cpu_P, self.gpu_P, limits)

    def served_by_cpu(self, ratio_Q: FloatArray) -> FloatArray:
        """Two functions of CPU left per GPU left, in units of `cpu_per_gpu`; see `_served`."""
        return _served(self.gpu_cpu_P / (self.each_gpu_P * self.cpu_per_gpu), self.gpu_P, ratio_Q)

    def served_by_memory(self, ratio_Q: FloatArray) -> FloatArray:
        return _served(self.gpu_memory_P / (self.each_gpu_P * self.memory_per_gpu), self.gpu_P, ratio_Q)


def _scarcity(asked: float, capacity: int) -> float:
    return min(max(0.0, asked / max(capacity, 1) - PLENTY) / RANGE, MOST_SCARCE)


def _share_within(
    size_P: IntArray | FloatArray, weight_P: IntArray | FloatArray, limits: IntArray | FloatArray
) -> FloatArray:
    """Share of the weight whose size is at most each limit."""
    order = np.argsort(size_P)
    below = np.concatenate([[0], np.cumsum(weight_P[order])])
    share: FloatArray = below[np.searchsorted(size_P[order], limits, side="right")] / (below[-1] or 1)
    return share


def _served(needed_P: FloatArray, gpu_P: FloatArray, ratio_Q: FloatArray) -> FloatArray:
    """Share of the GPU asked for by pods that need at most so much with each GPU, and the share of the GPU left that
    pods drawn at random could use until the other resource ends."""
    whole_Q = _share_within(needed_P, gpu_P, ratio_Q)
    part_PQ = np.minimum(1.0, ratio_Q[None] / np.maximum(needed_P, 1e-9)[:, None])
    return np.array([whole_Q, gpu_P @ part_PQ / max(gpu_P.sum(), 1e-9)])


def _crowding(mix: WorkloadMix, several: IntArray, gpu: FloatArray) -> float:
    """For the number of devices where it is most. Pods with more devices count too: they need the same room."""
    nodes_D = np.array(mix.cluster.nodes_D or [0], np.int64)
    room = [(number * (np.arange(len(nodes_D)) // number) * nodes_D).sum() for number in several.tolist()]
    asked = np.cumsum(gpu[::-1])[::-1]
    used = max((wanted / max(there, 1) for wanted, there in zip(asked, room, strict=True)), default=0.0)
    return min(max(0.0, used - UNCROWDED) / (1 - UNCROWDED), 1.0)


def _tied(mix: WorkloadMix, gpu_S: FloatArray) -> FloatArray:
    """At full load: GPU asked for by pods that name models, divided among those, over what there is of each."""
    offered_M = np.array(mix.cluster.gpus_M or [0] * len(mix.models), np.float64)
    asked_M = np.zeros(len(mix.models))
    for shape, gpu in zip(mix.shapes, gpu_S.tolist(), strict=True):
        named = [m for m, model in enumerate(mix.models) if shape.gpu_models and shape.accepts_model(model)]
        there = offered_M[named].sum()
        if gpu and there:
            asked_M[named] += gpu * offered_M[named] / there
    return asked_M / np.maximum(offered_M, 1)
