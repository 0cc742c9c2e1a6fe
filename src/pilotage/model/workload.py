"""What asks for resources: pods, their shapes, gangs, and a whole workload as columns.

A decision depends on a pod only through its shape, and real workloads have few shapes and many pods. So a
`Workload` stores the distinct shapes once and one small number per pod: a million pods cost tens of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from pilotage.model.constraints import ANYWHERE, Constraints

GPU_MILLI = 1000  # one whole device
MIB = 1024 * 1024
FOREVER = float("inf")

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything about a pod that a placement decision may depend on; equal shapes are interchangeable."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0  # per device, 1..1000; 0 = no GPU
    gpu_count: int = 0  # distinct devices
    gpu_models: str = ""  # "A|B" as written; empty = any model
    gpu_devices: int = 0  # bit mask of the devices it must get; 0 = any
    extended: tuple[tuple[str, int], ...] = ()  # other resources by name, sorted
    priority: int = 0
    constraints: Constraints = ANYWHERE

    @property
    def total_gpu_milli(self) -> int:
        return self.gpu_milli * self.gpu_count

    @property
    def kind(self) -> Literal["cpu", "share", "whole", "multi"]:
        """The pod class of the packing literature: CPU-only, part of a GPU, one whole GPU, several GPUs."""
        if self.gpu_count == 0:
            return "cpu"
        if self.gpu_count > 1:
            return "multi"
        return "share" if self.gpu_milli < GPU_MILLI else "whole"

    def accepts_model(self, model: str) -> bool:
        accepted = [entry for entry in self.gpu_models.split("|") if entry]
        return not accepted or model in accepted


POD_KINDS = ("cpu", "share", "whole", "multi")


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that run together or not at all."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, as a row of a workload."""

    name: str
    shape: PodShape
    namespace: str = "default"
    arrival: float = 0.0  # seconds from the start of the trace
    duration: float = FOREVER  # seconds of running; FOREVER = never departs
    gang: Gang | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods as columns. Row p is a pod; `shapes[shape_P[p]]` is what it asks for."""

    names: Sequence[str]
    shapes: tuple[PodShape, ...]
    shape_P: IntArray
    arrival_P: FloatArray
    duration_P: FloatArray
    gangs: tuple[Gang, ...] = ()
    gang_P: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # index into gangs, -1 = none
    timed: bool = False  # True when arrivals and durations come from the source

    def __len__(self) -> int:
        return len(self.shape_P)

    def __iter__(self) -> Iterator[Pod]:
        return (self.pod(p) for p in range(len(self)))

    def pod(self, p: int) -> Pod:
        gang = int(self.gang_P[p]) if len(self.gang_P) else -1
        return Pod(
            name=self.names[p],
            shape=self.shapes[self.shape_P[p]],
            arrival=float(self.arrival_P[p]),
            duration=float(self.duration_P[p]),
            gang=self.gangs[gang] if gang >= 0 else None,
        )

    @property
    def gpu_milli_P(self) -> IntArray:
        """GPU milli asked for by each pod, over all its devices."""
        per_shape = np.array([shape.total_gpu_milli for shape in self.shapes], np.int64)
        return per_shape[self.shape_P] if len(self.shapes) else np.zeros(0, np.int64)

    def take(self, rows: npt.ArrayLike, names: Sequence[str] | None = None) -> Workload:
        """The pods of `rows`, in that order and possibly repeated; `names` where they must differ."""
        index = np.asarray(rows, np.int64)
        return Workload(
            names=[self.names[i] for i in index] if names is None else names,
            shapes=self.shapes,
            shape_P=self.shape_P[index],
            arrival_P=self.arrival_P[index],
            duration_P=self.duration_P[index],
            gangs=self.gangs,
            gang_P=self.gang_P[index] if len(self.gang_P) else self.gang_P,
            timed=self.timed,
        )

    @classmethod
    def of(cls, pods: Iterable[Pod], *, timed: bool = False) -> Workload:
        shapes: dict[PodShape, int] = {}
        gangs: dict[Gang, int] = {}
        names, shape, arrival, duration, gang = [], [], [], [], []
        for pod in pods:
            names.append(pod.name)
            shape.append(shapes.setdefault(pod.shape, len(shapes)))
            arrival.append(pod.arrival)
            duration.append(pod.duration)
            gang.append(-1 if pod.gang is None else gangs.setdefault(pod.gang, len(gangs)))
        return cls(
            names=names,
            shapes=tuple(shapes),
            shape_P=np.array(shape, np.int64),
            arrival_P=np.array(arrival, np.float64),
            duration_P=np.array(duration, np.float64),
            gangs=tuple(gangs),
            gang_P=np.array(gang if gangs else [], np.int64),
            timed=timed,
        )


def within_load(gpu_P: IntArray, devices: int, load: float) -> BoolArray:
    """Which pods arrive while the arrived GPU milli, their own included, are at most `load` of the capacity."""
    # Whole milli are compared; the small term keeps 0.0049 * 1000 * 10 < 49 from dropping a pod.
    limit = np.floor(load * GPU_MILLI * devices + 1e-6)
    arrived: BoolArray = np.cumsum(gpu_P) <= limit
    return arrived
