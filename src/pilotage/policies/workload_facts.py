"""What a policy can know of a workload before it runs: figures of the mix of pods and of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray
from pilotage.policies.api import WorkloadMix

PLENTY, RANGE = 0.82, 0.205  # CPU asked for at full GPU load / CPU capacity: scarce above PLENTY


@dataclass(frozen=True)
class WorkloadFacts:
    """Figures that do not depend on the order of pods."""

    cpu_per_gpu: float  # milli, over pods with GPU
    memory_per_gpu: float  # bytes
    scarcity: float  # of CPU, 0 = plenty
    cpu_only: float  # share of the CPU that pods without GPU ask for
    multi: float  # share of the GPU that pods with several devices ask for
    shared: float  # share of the GPU that pods with a part of a device ask for
    sizes: tuple[int, ...]  # of share pods, milli
    pods: tuple[int, ...]  # of each size
    whole: int  # devices asked for as a whole
    tied_M: FloatArray  # GPU asked for of this model alone / what there is of it
    cpu_only_cpu_P: IntArray  # CPU of the CPU-only shapes, milli
    cpu_only_pods_P: IntArray  # how many pods have each

    @classmethod
    def of(cls, mix: WorkloadMix) -> WorkloadFacts:
        count_S, shapes = mix.count_S, mix.shapes
        milli_S, devices_S, cpu_S, memory_S = (
            np.array([getattr(shape, name) for shape in shapes], np.int64)
            for name in ("gpu_milli", "gpu_count", "cpu_milli", "memory_bytes")
        )
        gpu_S = milli_S * devices_S / GPU_MILLI * count_S
        with_gpu, total = devices_S > 0, max(float(gpu_S.sum()), 1e-9)
        asked = float((cpu_S * count_S).sum()) / total * mix.cluster.gpus / max(mix.cluster.cpu_milli, 1)
        shares = (devices_S == 1) & (milli_S < GPU_MILLI)
        sizes = np.unique(milli_S[shares & (count_S > 0)])
        return cls(
            cpu_per_gpu=max(float((cpu_S * count_S)[with_gpu].sum()) / total, 1.0),
            memory_per_gpu=max(float((memory_S.astype(np.float64) * count_S)[with_gpu].sum()) / total, 1.0),
            scarcity=max(0.0, asked - PLENTY) / RANGE,
            cpu_only=float((cpu_S * count_S)[~with_gpu].sum()) / max(float((cpu_S * count_S).sum()), 1.0),
            multi=float(gpu_S[devices_S > 1].sum()) / total,
            shared=float(gpu_S[shares].sum()) / total,
            sizes=tuple(sizes.tolist()),
            pods=tuple(int(count_S[shares & (milli_S == size)].sum()) for size in sizes),
            whole=int(gpu_S[with_gpu & (milli_S == GPU_MILLI)].sum()),
            tied_M=_tied(mix, gpu_S / total * mix.cluster.gpus),
            cpu_only_cpu_P=cpu_S[~with_gpu],
            cpu_only_pods_P=count_S[~with_gpu],
        )

    def cpu_only_within(self, limits: IntArray) -> FloatArray:
        """Share of the CPU-only pods that ask for at most each limit of CPU."""
        order = np.argsort(self.cpu_only_cpu_P)
        below = np.concatenate([[0], np.cumsum(self.cpu_only_pods_P[order])])
        within = np.searchsorted(self.cpu_only_cpu_P[order], limits, side="right")
        share: FloatArray = below[within] / max(below[-1], 1)
        return share


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
