"""Figures of a cluster at rest, as simon prints them: how much is allocated, and of what use the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pilotage.kernels.fragmentation import CATEGORIES, SATISFIED
from pilotage.kernels.meters import (
    AMOUNTS,
    CPU_USED,
    DEVICES_USED,
    GPU_USED,
    MEMORY_USED,
    empty_meters,
    measure_all,
)
from pilotage.model.cluster import CPU_AXIS, MEMORY_AXIS, ClusterState, Node
from pilotage.policies.api import WorkloadMix
from pilotage.policies.mix import typical_pods
from pilotage.sim.run import Placed


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much of what is offered is asked for."""

    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Analysis:
    """One block of figures. Amounts are GPU milli, by what keeps typical pods from using them."""

    tag: str
    cpu: Ratio  # milli
    memory: Ratio  # bytes
    gpus: Ratio  # devices with a pod on them
    gpu: Ratio  # milli
    amounts: dict[str, float]  # the seven categories, in the published order
    idle: float
    fragmented: float

    @property
    def fragmented_percent(self) -> float:
        """Of what is idle."""
        return 100.0 * self.fragmented / self.idle if self.idle else 0.0

    def as_dict(self) -> dict[str, object]:
        ratios = {"cpu_milli": self.cpu, "memory_bytes": self.memory, "gpus": self.gpus, "gpu_milli": self.gpu}
        return {
            "tag": self.tag,
            "allocation": {
                name: {
                    "requested": ratio.requested,
                    "allocatable": ratio.allocatable,
                    "percent": round(ratio.percent, 6),
                }
                for name, ratio in ratios.items()
            },
            "amounts_gpu_milli": {name: round(amount, 6) for name, amount in self.amounts.items()},
            "idle_gpu_milli": round(self.idle, 6),
            "frag_gpu_milli": round(self.fragmented, 6),
            "frag_percent_of_idle": round(self.fragmented_percent, 6),
        }


def occupied(nodes: Sequence[Node], placed: Sequence[Placed]) -> ClusterState:
    """The cluster with these pods on it."""
    state = ClusterState(nodes, {name for pod in placed for name, _ in pod.shape.extended})
    for number, pod in enumerate(placed):
        state.add(str(number), pod.shape, state.index[pod.node], pod.devices)
    return state


def analyse(tag: str, state: ClusterState, mix: WorkloadMix) -> Analysis:
    """Figures of `state`, whose nodes are in the order in which the published sums are added."""
    arrays = state.arrays
    meters = empty_meters(
        len(state.nodes),
        typical_pods(replace(mix, models=state.models, devices=arrays.device_left_ND.shape[1])),
    )
    measure_all(arrays, meters)
    total_M, offered_R = meters.total_M, arrays.capacity_NR.sum(axis=0)
    amounts = total_M[AMOUNTS : AMOUNTS + len(CATEGORIES)].tolist()  # summed in their order, as published
    return Analysis(
        tag=tag,
        cpu=Ratio(int(total_M[CPU_USED]), int(offered_R[CPU_AXIS])),
        memory=Ratio(int(total_M[MEMORY_USED]), int(offered_R[MEMORY_AXIS])),
        gpus=Ratio(int(total_M[DEVICES_USED]), int(arrays.device_count_N.sum())),
        gpu=Ratio(int(total_M[GPU_USED]), state.gpu_capacity_milli),
        amounts=dict(zip(CATEGORIES, amounts, strict=True)),
        idle=sum(amounts),
        fragmented=sum(amount for k, amount in enumerate(amounts) if k != SATISFIED),
    )
