"""The figures of a trace: what it asks for, what the cluster has, and how the two compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from pilotage.model.cluster import Node
from pilotage.model.workload import FOREVER, GPU_MILLI, MIB, POD_KINDS, IntArray, PodShape, Workload
from pilotage.workloads.trace import Trace

TOP_SHAPES: Final = 10
RESOURCES: Final = ("cpu_milli", "memory_mib", "gpu_milli")


@dataclass(frozen=True, slots=True)
class PodClass:
    """Pods of one class of the packing literature, and their part of everything asked for."""

    kind: str
    pods: int
    pods_percent: float
    gpu_milli: int
    gpu_percent: float
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class Demand:
    """One resource: what all pods ask for together and what all nodes have."""

    resource: str
    requested: int
    capacity: int
    percent: float | None  # of capacity; None without capacity
    offered_load_percent: float | None  # mean over the time of arrivals if every pod ran at once; None without times


@dataclass(frozen=True, slots=True)
class ShapeCount:
    """Pods with the same request."""

    pods: int
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    gpu_count: int
    gpu_models: str


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one GPU model ("" = no GPU or unknown)."""

    model: str
    nodes: int
    gpus: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Arrivals and durations in seconds; pods that never leave are left out of the durations."""

    first_arrival: float
    last_arrival: float
    sorted_by_arrival: bool
    never_leaving: int
    duration_p25: float | None
    duration_median: float | None
    duration_p75: float | None
    duration_mean: float | None
    duration_max: float | None


@dataclass(frozen=True, slots=True)
class Description:
    """All figures of a trace. Keys of `as_dict` may be added, never renamed."""

    trace: str
    digest: str
    nodes: int
    pods: int
    gangs: int
    pods_naming_models: int
    distinct_shapes: int
    distinct_shapes_without_memory: int
    classes: tuple[PodClass, ...]
    resources: tuple[Demand, ...]
    share_sizes: dict[int, int]  # gpu_milli of pods that want part of one device: pods
    device_counts: dict[int, int]  # devices: pods
    top_shapes: tuple[ShapeCount, ...]
    node_models: tuple[NodeGroup, ...]
    times: TimeSpan | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def describe(trace: Trace) -> Description:
    workload = trace.workload
    pods_S = np.bincount(workload.shape_P, minlength=len(workload.shapes))
    counted = [(shape, int(pods)) for shape, pods in zip(workload.shapes, pods_S, strict=True) if pods]
    return Description(
        trace=trace.name,
        digest=trace.digest,
        nodes=len(trace.nodes),
        pods=len(workload),
        gangs=len(workload.gangs),
        pods_naming_models=sum(pods for shape, pods in counted if shape.gpu_models),
        distinct_shapes=len(counted),
        distinct_shapes_without_memory=len({(s.cpu_milli, s.gpu_milli, s.gpu_count, s.gpu_models) for s, _ in counted}),
        classes=_classes(counted),
        resources=_resources(trace, counted),
        share_sizes=_tally((shape.gpu_milli, pods) for shape, pods in counted if shape.kind == "share"),
        device_counts=_tally((shape.gpu_count, pods) for shape, pods in counted),
        top_shapes=_top_shapes(counted),
        node_models=_node_models(trace.nodes),
        times=_time_span(workload) if workload.timed and len(workload) else None,
    )


Counted = Sequence[tuple[PodShape, int]]


def _amounts(shape: PodShape) -> tuple[int, int, int]:
    return shape.cpu_milli, -(-shape.memory_bytes // MIB), shape.total_gpu_milli


def _capacity(node: Node) -> tuple[int, int, int]:
    return node.cpu_milli, node.memory_bytes // MIB, node.gpu_count * GPU_MILLI


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _classes(counted: Counted) -> tuple[PodClass, ...]:
    def total(kind: str | None, amount: int) -> int:
        return sum(_amounts(s)[amount] * pods for s, pods in counted if kind in (None, s.kind))

    all_pods = sum(pods for _, pods in counted)
    classes = []
    for kind in POD_KINDS:
        pods = sum(pods for shape, pods in counted if shape.kind == kind)
        gpu, cpu = total(kind, 2), total(kind, 0)
        percents = _percent(pods, all_pods), _percent(gpu, total(None, 2)), _percent(cpu, total(None, 0))
        classes.append(PodClass(kind, pods, percents[0], gpu, percents[1], percents[2]))
    return tuple(classes)


def _resources(trace: Trace, counted: Counted) -> tuple[Demand, ...]:
    demands = []
    for axis, resource in enumerate(RESOURCES):
        requested = sum(_amounts(shape)[axis] * pods for shape, pods in counted)
        capacity = sum(_capacity(node)[axis] for node in trace.nodes)
        percent = 100 * requested / capacity if capacity else None
        demands.append(Demand(resource, requested, capacity, percent, _offered_load(trace.workload, axis, capacity)))
    return tuple(demands)


def _offered_load(workload: Workload, axis: int, capacity: int) -> float | None:
    span = float(np.ptp(workload.arrival_P)) if len(workload) else 0.0
    if not workload.timed or not capacity or not span or not np.isfinite(workload.duration_P).all():
        return None
    amount_S = np.array([_amounts(shape)[axis] for shape in workload.shapes], np.float64)
    return float(100 * (amount_S[workload.shape_P] * workload.duration_P).sum() / (span * capacity))


def _tally(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    tally: Counter[int] = Counter()
    for value, pods in pairs:
        tally[value] += pods
    return dict(sorted(tally.items(), key=lambda entry: (-entry[1], entry[0])))


def _top_shapes(counted: Counted) -> tuple[ShapeCount, ...]:
    def request(shape: PodShape) -> tuple[int, int, int, int, str]:
        return shape.cpu_milli, _amounts(shape)[1], shape.gpu_milli, shape.gpu_count, shape.gpu_models

    top = sorted(counted, key=lambda entry: (-entry[1], request(entry[0])))[:TOP_SHAPES]
    return tuple(ShapeCount(pods, *request(shape)) for shape, pods in top)


def _node_models(nodes: Sequence[Node]) -> tuple[NodeGroup, ...]:
    totals: dict[str, IntArray] = {}
    for node in nodes:
        row = np.array([1, node.gpu_count, node.cpu_milli, node.memory_bytes // MIB], np.int64)
        totals[node.gpu_model] = totals.get(node.gpu_model, 0) + row
    groups = [NodeGroup(model, *(int(value) for value in row)) for model, row in totals.items()]
    return tuple(sorted(groups, key=lambda group: (-group.nodes, group.model)))


def _time_span(workload: Workload) -> TimeSpan:
    ending = workload.duration_P[workload.duration_P != FOREVER]
    figures = [*np.percentile(ending, [25, 50, 75]), ending.mean(), ending.max()] if len(ending) else [None] * 5
    return TimeSpan(
        float(workload.arrival_P.min()),
        float(workload.arrival_P.max()),
        bool((np.diff(workload.arrival_P) >= 0).all()),
        len(workload) - len(ending),
        *(None if figure is None else float(figure) for figure in figures),
    )
