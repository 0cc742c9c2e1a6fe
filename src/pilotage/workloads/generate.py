"""Shipped workload models: `openb-like` nodes and pods, drawn from published figures instead of a copied trace.

The tables below are the figures that describe the OpenB trace (typical pod shapes with their counts and most common
memory, sizes of GPU shares, node configurations). A generated list has the same mix in exact proportion: only the
order, the times and the pods that name a GPU model are random, so two seeds differ in what a scheduler cannot know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Final, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import GPU_MILLI, MIB, POD_KINDS, FloatArray, IntArray, PodShape, Workload
from pilotage.workloads.grouping import Gangs, grouped
from pilotage.workloads.openb import PODS_PER_NODE
from pilotage.workloads.topology import labelled

GIB: Final = 1024 * MIB
MAX_PODS: Final = 10**8
MAX_NODES: Final = 10**6


class NodeKind(NamedTuple):
    """A node configuration and how many of it the cluster has."""

    model: str
    nodes: int
    gpus: int
    cpus: int
    memory_gib: int


NODE_KINDS: Final = (
    NodeKind("G2", 549, 8, 96, 384),
    NodeKind("T4", 387, 2, 104, 512),
    NodeKind("T4", 17, 4, 96, 384),
    NodeKind("P100", 107, 2, 16, 120),
    NodeKind("P100", 22, 2, 64, 256),
    NodeKind("P100", 2, 2, 8, 60),
    NodeKind("P100", 3, 1, 8, 60),
    NodeKind("V100M16", 28, 4, 32, 128),
    NodeKind("V100M16", 19, 1, 8, 32),
    NodeKind("V100M16", 7, 8, 64, 256),
    NodeKind("V100M16", 1, 8, 82, 336),
    NodeKind("G3", 39, 8, 128, 768),
    NodeKind("V100M32", 21, 8, 96, 768),
    NodeKind("V100M32", 9, 4, 48, 368),
    NodeKind("A10", 2, 1, 128, 1024),
)
NODES: Final = sum(kind.nodes for kind in NODE_KINDS)

# (cpu_milli, gpu_milli, devices, memory MiB): pods. The typical shapes and the most common shapes with several GPUs.
TYPICAL: Final[dict[tuple[int, int, int, int], int]] = {
    (3152, 810, 1, 5600): 1047,
    (11300, 1000, 1, 49152): 874,
    (11400, 1000, 1, 48128): 599,
    (3152, 1000, 1, 5600): 470,
    (11908, 470, 1, 47104): 388,
    (12500, 0, 0, 57344): 366,
    (8000, 470, 1, 30517): 360,
    (12000, 1000, 1, 24576): 326,
    (32000, 0, 0, 49152): 290,
    (18708, 1000, 1, 64512): 255,
    (11908, 650, 1, 47104): 237,
    (4000, 320, 1, 22888): 232,
    (9810, 1000, 1, 41560): 195,
    (8000, 0, 0, 30517): 185,
    (8000, 1000, 1, 16384): 164,
    (4000, 1000, 1, 24576): 159,
    (15700, 1000, 1, 58368): 158,
    (11908, 1000, 1, 47104): 153,
    (16000, 1000, 1, 32768): 150,
    (4000, 230, 1, 30517): 122,
    (15400, 0, 0, 51200): 120,
    (6000, 460, 1, 6144): 120,
    (16500, 0, 0, 51200): 95,
    (14200, 1000, 1, 58368): 93,
    (24200, 1000, 1, 93184): 84,
    (3152, 590, 1, 5600): 75,
    (8000, 320, 1, 30517): 72,
    (4152, 550, 1, 10600): 72,
    (11900, 1000, 1, 77824): 55,
    (4000, 160, 1, 15258): 54,
    (4152, 370, 1, 10600): 45,
    (4000, 220, 1, 15258): 43,
    (8200, 1000, 1, 33792): 41,
    (15200, 1000, 1, 80896): 36,
    (4152, 810, 1, 10600): 31,
    (16200, 1000, 2, 66560): 7,
    (6000, 1000, 2, 65536): 3,
    (30200, 1000, 2, 160768): 3,
    (32200, 1000, 4, 132096): 9,
    (32000, 1000, 4, 131072): 3,
    (60200, 1000, 4, 320512): 3,
    (88000, 1000, 8, 327680): 18,
    (64200, 1000, 8, 263168): 18,
    (120000, 1000, 8, 737280): 3,
}
# Pods by size of their GPU share. Sizes without a typical shape get the CPU and memory of the smallest ones that have.
SHARE_SIZES: Final[dict[int, int]] = {
    **{810: 1078, 470: 750, 320: 328, 650: 253, 230: 140, 460: 128, 590: 75, 160: 74, 550: 72, 220: 62},
    **{370: 47, 110: 24, 480: 19, 50: 7, 330: 7, 350: 6, 270: 4, 440: 2, 140: 1, 290: 1},
}
SMALL_SHARE: Final = (4000, 15258)
DEVICE_COUNTS: Final[dict[int, int]] = {2: 16, 4: 15, 8: 44}  # pods with several GPUs, by their number
CLASS_PODS: Final = {"cpu": 1088, "share": 3078, "whole": 3911, "multi": 75}
PODS: Final = sum(CLASS_PODS.values())
# How pods name GPU models, of those that do.
MODEL_CHOICES: Final[dict[str, int]] = {
    **{"T4": 1291, "G2": 331, "P100": 279, "V100M16|V100M32": 141, "P100|V100M16|V100M32": 103, "G3": 86},
}


@dataclass(frozen=True, slots=True)
class Mix:
    """What a workload consists of. All are fractions from 0 to 1; the defaults are those of the OpenB trace."""

    cpu_only: float = CLASS_PODS["cpu"] / PODS
    """Pods without GPU, of all pods."""
    share_of_gpu: float = 1_731_800 / 6_086_800
    """GPU asked for by pods that want part of one device, of all GPU asked for."""
    multi_of_gpu: float = 444_000 / 6_086_800
    """GPU asked for by pods that want several devices, of all GPU asked for. One whole device is the rest."""
    model_named: float = 0.0
    """Pods that accept only some GPU models (gpu_spec), of all pods with GPU."""

    def __post_init__(self) -> None:
        for name in ("cpu_only", "share_of_gpu", "multi_of_gpu", "model_named"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"bad value {getattr(self, name)}", field=name, expected="a fraction from 0 to 1")
        if self.share_of_gpu + self.multi_of_gpu > 1 + 1e-9:
            raise InputError("share_of_gpu and multi_of_gpu are more than everything", expected="a sum of at most 1")


@dataclass(frozen=True, slots=True)
class Times:
    """When pods arrive and how long they run."""

    load: float = 1.0
    """Mean demand for the scarcest of CPU and GPU, in capacities of the cluster, if all pods could run at once."""
    nodes_scale: float = 1.0
    """Size of that cluster, as given to `openb_like_nodes`."""
    horizon: float | None = None
    """Seconds over which pods arrive (a Poisson process); None = the time that gives `load`."""
    median: float = 540.0
    """Median duration in seconds; the spread gives quartiles of about 157 and 1860 seconds (trace: 167 and 1972)."""
    spread: float = log(1972 / 167) / (2 * 0.674490)
    """Standard deviation of the logarithm of the duration (log-normal), from the quartiles of the trace."""
    longest: float = 12.5e6
    """Durations are cut here (seconds)."""

    def __post_init__(self) -> None:
        for name in ("load", "nodes_scale", "horizon", "median", "spread", "longest"):
            value = getattr(self, name)
            if value is not None and not 0 < value < 1e9:
                raise InputError(f"bad value {value}", field=name, expected="a number above 0 and below 10^9")


@dataclass(frozen=True, slots=True)
class Numbered(Sequence[str]):
    """Names like pod-000017, made when asked for: a million of them cost nothing."""

    prefix: str
    size: int
    width: int

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self._name(number) for number in range(self.size)[index]]
        return self._name(range(self.size)[index])

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(self.size))

    def _name(self, number: int) -> str:
        return f"{self.prefix}{number:0{self.width}d}"


def numbered(prefix: str, count: int, width: int) -> Numbered:
    """`count` names whose order as text is their order as numbers."""
    return Numbered(prefix, count, max(width, len(str(count - 1))))


def openb_like_nodes(scale: float = 1.0) -> tuple[Node, ...]:
    """A cluster in the proportions of OpenB's GPU nodes: 1,213 nodes and 6,212 GPUs at scale 1."""
    total = round(NODES * scale) if 0 < scale < MAX_NODES else 0
    if not 0 < total <= MAX_NODES:
        raise InputError(f"bad scale {scale}", field="scale", expected=f"one that gives 1 to {MAX_NODES} nodes")
    counts = proportional([kind.nodes for kind in NODE_KINDS], total)
    kind_N = np.repeat(np.arange(len(NODE_KINDS)), counts)
    # Every kind is spread evenly over the list, so that any part of it is a cluster of about the same mix.
    place_N = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in counts])
    order = np.lexsort((kind_N, place_N))
    names = numbered("node-", total, 4)
    return tuple(_node(NODE_KINDS[kind], name) for kind, name in zip(kind_N[order], names, strict=True))


def _node(kind: NodeKind, name: str) -> Node:
    return Node(
        name=name,
        cpu_milli=kind.cpus * 1000,
        memory_bytes=kind.memory_gib * GIB,
        pods=PODS_PER_NODE,
        gpu_count=kind.gpus,
        gpu_model=kind.model,
    )


def openb_like_pods(pods: int = PODS, seed: int = 0, mix: Mix | None = None, times: Times | None = None) -> Workload:
    """Pods in OpenB's proportions, or in those of `mix`. The same arguments give the same pods everywhere."""
    if not 0 < pods <= MAX_PODS:
        raise InputError(f"bad number of pods {pods}", field="pods", expected=f"1 to {MAX_PODS}")
    if seed < 0:
        raise InputError(f"bad seed {seed}", field="seed", expected="0 or more")
    mix, times = mix or Mix(), times or Times()
    shapes, weights = _weighted_shapes()
    counts = _counts(shapes, weights, pods, mix)
    random = np.random.Generator(np.random.PCG64(seed))
    shape_P = random.permutation(np.repeat(np.arange(len(shapes)), counts))
    arrival_P = _arrivals(random, pods, _horizon(shapes, counts, times))
    duration_P = _durations(random, pods, times)
    if mix.model_named:  # drawn last: the same pods as without, but for the models
        shapes, shape_P = _name_models(random, shapes, shape_P, mix.model_named)
    names = numbered("pod-", pods, 6)
    return Workload(names, tuple(shapes), shape_P, arrival_P, duration_P, timed=True)


def proportional(weights: npt.ArrayLike, total: int) -> IntArray:
    """`total` split by `weights` in whole numbers, each within one of its exact part (largest remainders)."""
    exact = np.asarray(weights, np.float64)
    exact = exact / exact.sum() * total
    counts: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def _weighted_shapes() -> tuple[list[PodShape], FloatArray]:
    """All shapes with their pods in the trace; shares add up to the printed number of each size."""
    per_group: dict[tuple[int, int], int] = {}
    for (_, milli, devices, _), pods in TYPICAL.items():
        per_group[milli, devices] = per_group.get((milli, devices), 0) + pods
    table = dict(TYPICAL)
    for milli, pods in SHARE_SIZES.items():
        if (milli, 1) not in per_group:
            table[SMALL_SHARE[0], milli, 1, SMALL_SHARE[1]] = per_group[milli, 1] = pods
    printed = {(milli, 1): pods for milli, pods in SHARE_SIZES.items()}
    printed |= {(GPU_MILLI, devices): pods for devices, pods in DEVICE_COUNTS.items()}
    shapes = [PodShape(cpu, memory * MIB, milli, devices) for cpu, milli, devices, memory in table]
    weights = [
        pods * printed.get((milli, devices), per_group[milli, devices]) / per_group[milli, devices]
        for (_, milli, devices, _), pods in table.items()
    ]
    return shapes, np.array(weights)


def _counts(shapes: Sequence[PodShape], weight_S: FloatArray, pods: int, mix: Mix) -> IntArray:
    """Pods of every shape: first the classes by the mix, then GPU requests, then shapes by their weights."""
    kind_S = np.array([POD_KINDS.index(shape.kind) for shape in shapes])
    gpu_S = np.array([shape.total_gpu_milli / GPU_MILLI for shape in shapes])
    weight_K = np.bincount(kind_S, weight_S)
    mean_gpu_K = np.bincount(kind_S, weight_S * gpu_S) / weight_K
    whole_of_gpu = max(0.0, 1 - mix.share_of_gpu - mix.multi_of_gpu)
    gpu_pods = np.array([mix.share_of_gpu, whole_of_gpu, mix.multi_of_gpu]) / mean_gpu_K[1:]
    pods_K = proportional([mix.cpu_only, *(1 - mix.cpu_only) * gpu_pods / gpu_pods.sum()], pods)
    group_S = _groups(shapes)
    kind_G = np.array([kind_S[group_S == group][0] for group in range(group_S.max() + 1)])
    pods_G = _split(kind_G, np.bincount(group_S, weight_S).astype(np.float64), pods_K)
    return _split(group_S, weight_S, pods_G)


def _groups(shapes: Sequence[PodShape]) -> IntArray:
    """Shapes with the same GPU request are one group: its size is printed, so rounding must not blur it."""
    groups: dict[tuple[int, int], int] = {}
    return np.array([groups.setdefault((shape.gpu_milli, shape.gpu_count), len(groups)) for shape in shapes])


def _split(parent_X: IntArray, weight_X: FloatArray, count_Y: IntArray) -> IntArray:
    """Every parent's count over its children, by their weights."""
    count_X = np.zeros(len(parent_X), np.int64)
    for parent, count in enumerate(count_Y):
        children = parent_X == parent
        count_X[children] = proportional(weight_X[children], int(count))
    return count_X


def _horizon(shapes: Sequence[PodShape], counts: IntArray, times: Times) -> float:
    if times.horizon is not None:
        return times.horizon
    cpus = sum(kind.nodes * kind.cpus for kind in NODE_KINDS) * times.nodes_scale
    gpus = sum(kind.nodes * kind.gpus for kind in NODE_KINDS) * times.nodes_scale
    cpu = sum(shape.cpu_milli * int(count) for shape, count in zip(shapes, counts, strict=True)) / 1000 / cpus
    gpu = sum(shape.total_gpu_milli * int(count) for shape, count in zip(shapes, counts, strict=True)) / 1000 / gpus
    mean_duration = min(times.median * exp(times.spread**2 / 2), times.longest)
    return max(cpu, gpu) * mean_duration / times.load


def _arrivals(random: np.random.Generator, pods: int, horizon: float) -> FloatArray:
    """Whole seconds, as in the trace. Given their number, the arrivals of a Poisson process are uniform."""
    return np.sort(np.floor(random.random(pods) * horizon))


def _durations(random: np.random.Generator, pods: int, times: Times) -> FloatArray:
    drawn = np.rint(random.lognormal(log(times.median), times.spread, pods))
    return np.clip(drawn, 1, times.longest)


def _name_models(
    random: np.random.Generator, shapes: Sequence[PodShape], shape_P: IntArray, part: float
) -> tuple[list[PodShape], IntArray]:
    """Give `part` of the GPU pods a list of models, among those that have a node large enough for the pod."""
    choices, weights = list(MODEL_CHOICES), np.array(list(MODEL_CHOICES.values()), np.float64)
    gpu_rows = np.flatnonzero(np.array([shape.gpu_count > 0 for shape in shapes])[shape_P])
    chosen_P = np.zeros(len(shape_P), bool)
    chosen_P[random.permutation(gpu_rows)[: round(part * len(gpu_rows))]] = True
    table = [replace(shape, gpu_models=models) for models in ["", *choices] for shape in shapes]
    named_P = shape_P.copy()
    for number, shape in enumerate(shapes):
        rows = np.flatnonzero(chosen_P & (shape_P == number))
        possible = weights * np.array([_has_node(replace(shape, gpu_models=models)) for models in choices])
        if len(rows) and possible.any():
            drawn = random.choice(len(choices), len(rows), p=possible / possible.sum())
            named_P[rows] = number + (drawn + 1) * len(shapes)
    used, index_P = np.unique(named_P, return_inverse=True)
    return [table[number] for number in used], index_P.astype(np.int64)


def _has_node(shape: PodShape) -> bool:
    return any(
        shape.accepts_model(kind.model)
        and shape.gpu_count <= kind.gpus
        and shape.cpu_milli <= kind.cpus * 1000
        and shape.memory_bytes <= kind.memory_gib * GIB
        for kind in NODE_KINDS
    )


class Shipped(NamedTuple):
    """A workload model by name: how many pods of which mix, on how large a cluster, and what it imitates."""

    meaning: str
    pods: int
    mix: Mix
    nodes_scale: float = 1.0
    times: Times = Times()  # its nodes_scale is that of the cluster
    gangs: Gangs = Gangs()
    racks: bool = False  # nodes say where they stand


def _family() -> dict[str, Shipped]:
    gpus = 11358.8  # asked for in the list with half of it in pods of several GPUs
    multi = Mix(cpu_only=1088 / 9061, share_of_gpu=1731.8 / gpus, multi_of_gpu=1 - (1731.8 + 3911) / gpus)
    return {
        "openb-like": Shipped("the mix of OpenB's default list", PODS, Mix()),
        "openb-like-cpu250": Shipped("a quarter of the pods without GPU", 9420, Mix(cpu_only=2356 / 9420)),
        "openb-like-gpushare100": Shipped(
            "every GPU pod wants part of one device", PODS, Mix(share_of_gpu=1.0, multi_of_gpu=0.0)
        ),
        "openb-like-gpuspec33": Shipped("a third of the GPU pods name models", PODS, Mix(model_named=2388 / 7064)),
        "openb-like-multigpu50": Shipped("half of the GPU demand in pods of several GPUs", 9061, multi),
        "openb-like-gangs": Shipped(
            "303 nodes in racks and zones; two thirds of the pods with one whole GPU in gangs of 2 to 16",
            12000,
            Mix(),
            nodes_scale=0.25,
            times=Times(load=2.2, longest=7200.0),  # cut this short, durations offer half of that load
            gangs=Gangs(part=2 / 3),
            racks=True,
        ),
    }


SHIPPED: Final[dict[str, Shipped]] = _family()


def shipped(
    name: str, seed: int = 0, pods: int | None = None, nodes_scale: float = 1.0
) -> tuple[tuple[Node, ...], Workload]:
    """The nodes and pods of a shipped workload model, with another number of pods or times its nodes if wanted."""
    if name not in SHIPPED:
        raise UnknownNameError("trace", name, SHIPPED)
    model = SHIPPED[name]
    scale = model.nodes_scale * nodes_scale
    nodes = openb_like_nodes(scale)
    times = replace(model.times, nodes_scale=scale)
    workload = openb_like_pods(model.pods if pods is None else pods, seed, model.mix, times)
    return labelled(nodes) if model.racks else nodes, grouped(workload, model.gangs, seed)
