"""Workloads unlike any published one, to learn from and to try policies on: other share sizes, other nodes.

A seed draws everything: sizes and weights of GPU shares (none of OpenB's sizes), how much of the GPU is asked for in
parts, as one device or as several, how much CPU and memory goes with it, CPU-only pods, GPU models and how many pods
name one, and kinds of nodes with up to sixteen devices. When all GPUs are asked for, CPU and memory of the cluster are
not yet: the workloads are about GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pilotage.model.cluster import Node
from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray, PodShape, Workload
from pilotage.workloads.generate import GIB, SHARE_SIZES
from pilotage.workloads.openb import PODS_PER_NODE
from pilotage.workloads.trace import Trace

DEVICES: Final = (1, 2, 3, 4, 6, 8, 10, 12, 16)  # of a node
SEVERAL: Final = (2, 3, 4, 6, 8, 12, 16)  # of a pod
PODS: Final = 4000
GPUS: Final = (400, 1600)  # of the cluster


@dataclass(frozen=True, slots=True)
class _Demand:
    """Pods of one class: what they ask for, and their share of all GPU that is asked for."""

    milli: int
    devices: int
    gpu: float


def varied_trace(seed: int) -> Trace:
    """The workload of this seed."""
    random = np.random.Generator(np.random.PCG64([0x7A12, seed]))
    nodes = _nodes(random)
    gpus = sum(node.gpu_count for node in nodes)
    cpu = sum(node.cpu_milli for node in nodes)
    memory = sum(node.memory_bytes for node in nodes)
    demands = _demands(random, nodes)
    cpu_per_gpu = cpu / gpus * random.uniform(0.3, 0.7)
    memory_per_gpu = memory / gpus * random.uniform(0.2, 0.6)
    shapes, weights = _gpu_shapes(random, demands, cpu_per_gpu, memory_per_gpu, nodes)
    pods_of_gpu = PODS / max(1e-9, sum(weights))
    count_S = [max(1, round(weight * pods_of_gpu)) for weight in weights]
    # CPU-only pods take a share of the CPU that the others leave.
    asked = sum(shape.total_gpu_milli * n for shape, n in zip(shapes, count_S, strict=True)) / GPU_MILLI
    spare_cpu = cpu * asked / gpus - sum(shape.cpu_milli * n for shape, n in zip(shapes, count_S, strict=True))
    spare_memory = memory * asked / gpus - sum(shape.memory_bytes * n for shape, n in zip(shapes, count_S, strict=True))
    for shape, n in _cpu_pods(random, max(0.0, spare_cpu) * random.uniform(0.0, 0.9), 0.9 * spare_memory, nodes):
        shapes.append(shape)
        count_S.append(n)
    shape_P = random.permutation(np.repeat(np.arange(len(shapes)), count_S))
    forever = np.full(len(shape_P), np.inf)
    names = [f"pod-{p:05}" for p in range(len(shape_P))]
    workload = Workload(names, tuple(shapes), shape_P, np.arange(len(shape_P), dtype=np.float64), forever)
    return Trace.of(f"varied-{seed}", nodes, workload)


def _nodes(random: np.random.Generator) -> tuple[Node, ...]:
    """Two to six kinds, of up to four GPU models."""
    wanted = random.integers(*GPUS)
    kinds = int(random.integers(2, 7))
    models = int(random.integers(1, 5))
    share_K = random.dirichlet(np.full(kinds, 1.0))
    cpu_scale, memory_scale = random.uniform(6, 24), random.uniform(2, 8)
    nodes: list[Node] = []
    for k in range(kinds):
        devices = int(random.choice(DEVICES))
        cpus = max(4, round(devices * cpu_scale * random.uniform(0.75, 1.35)))
        memory = round(cpus * memory_scale * random.uniform(0.8, 1.3)) * GIB
        model = f"M{k % models}"
        for _ in range(max(1, round(wanted * share_K[k] / devices))):
            nodes.append(
                Node(
                    name=f"node-{len(nodes):04}",
                    cpu_milli=cpus * 1000,
                    memory_bytes=memory,
                    pods=PODS_PER_NODE,
                    gpu_count=devices,
                    gpu_model=model,
                )
            )
    return tuple(nodes)


def _demands(random: np.random.Generator, nodes: tuple[Node, ...]) -> list[_Demand]:
    """Sizes of shares and numbers of devices, with the part of the GPU that is asked for in each."""
    shared, whole, multi = random.dirichlet([1.5, 1.2, 0.4])
    step = int(random.choice([1, 5, 10, 25]))
    possible = np.setdiff1d(np.arange(max(20, step), 980, step), [*SHARE_SIZES])
    size_S = random.choice(possible, int(random.integers(3, 25)), replace=False)
    share_S = random.dirichlet(np.full(len(size_S), 0.7))
    demands = [_Demand(int(s), 1, shared * part) for s, part in zip(size_S, share_S, strict=True)]
    demands.append(_Demand(GPU_MILLI, 1, whole))
    several = [n for n in SEVERAL if _fills(nodes, n)]
    if several:
        chosen = random.choice(several, min(len(several), 3), replace=False)
        parts = random.dirichlet(np.ones(len(chosen)))
        demands += [_Demand(GPU_MILLI, int(n), multi * part) for n, part in zip(chosen, parts, strict=True)]
    return [demand for demand in demands if demand.gpu > 0.002]


def _fills(nodes: tuple[Node, ...], devices: int) -> bool:
    """Whether pods with so many devices leave nothing over on most of the GPUs."""
    filled = sum(node.gpu_count for node in nodes if node.gpu_count % devices == 0)
    return 2 * filled >= sum(node.gpu_count for node in nodes)


def _gpu_shapes(
    random: np.random.Generator,
    demands: list[_Demand],
    cpu_per_gpu: float,
    memory_per_gpu: float,
    nodes: tuple[Node, ...],
) -> tuple[list[PodShape], list[float]]:
    """One to three variants of each demand, around what goes with a GPU on the whole; some name a model."""
    spread = random.uniform(0.1, 0.5)
    naming = random.choice([0.0, 0.05, 0.15]) * random.random()
    models = sorted({node.gpu_model for node in nodes})
    largest: dict[int, Node] = {}
    for node in nodes:
        for devices in range(1, node.gpu_count + 1):
            best = largest.get(devices)
            if best is None or node.cpu_milli > best.cpu_milli:
                largest[devices] = node
    variants = [
        (
            demand,
            demand.gpu * float(part),
            float(random.lognormal(0.0, spread)),
            float(random.lognormal(0.0, spread / 2)),
        )
        for demand in demands
        for part in random.dirichlet(np.ones(int(random.integers(1, 4))))
    ]
    # On the mean over all GPU that is asked for, exactly what goes with a GPU.
    total = sum(gpu for _, gpu, _, _ in variants)
    mean_cpu = sum(gpu * factor for _, gpu, factor, _ in variants) / total
    mean_memory = sum(gpu * factor * skew for _, gpu, factor, skew in variants) / total
    shapes: list[PodShape] = []
    weights: list[float] = []
    for demand, gpu, factor, skew in variants:
        gpus = demand.milli * demand.devices / GPU_MILLI
        fits = largest[demand.devices]
        cpu = min(round(gpus * cpu_per_gpu * factor / mean_cpu / 100) * 100 + 100, fits.cpu_milli)
        memory = min(int(gpus * memory_per_gpu * factor * skew / mean_memory), fits.memory_bytes)
        for named, share in (("", 1 - naming), (str(random.choice(models)), naming)):
            if share <= 0 or (named and not _can_run(nodes, named, demand.devices, cpu, memory)):
                continue
            shapes.append(PodShape(cpu, memory, demand.milli, demand.devices, gpu_models=named))
            weights.append(gpu * share / gpus)
    return shapes, weights


def _can_run(nodes: tuple[Node, ...], model: str, devices: int, cpu: int, memory: int) -> bool:
    return any(
        node.gpu_model == model and node.gpu_count >= devices and node.cpu_milli >= cpu and node.memory_bytes >= memory
        for node in nodes
    )


def _cpu_pods(
    random: np.random.Generator, cpu_milli: float, memory_bytes: float, nodes: tuple[Node, ...]
) -> list[tuple[PodShape, int]]:
    """Pods without GPU that together ask for so much CPU, and for at most so much memory."""
    kinds = int(random.integers(1, 6))
    smallest: IntArray = np.array([node.cpu_milli for node in nodes])
    parts: FloatArray = random.dirichlet(np.ones(kinds))
    per_core = min(GIB, max(memory_bytes, 0.0) / 4 / max(cpu_milli / 1000, 1.0))
    pods = []
    for part in parts:
        cpu = int(random.integers(5, max(6, int(smallest.min()) // 125))) * 100
        memory = int(cpu / 1000 * random.uniform(1, 4) * per_core)
        pods.append((PodShape(cpu, memory), int(cpu_milli * part / cpu)))
    return [(shape, n) for shape, n in pods if n > 0]
