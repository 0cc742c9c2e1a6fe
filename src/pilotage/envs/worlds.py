"""From settings to the arrays that episodes are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pilotage.envs.settings import EnvSettings
from pilotage.kernels.env_figures import OBJECTIVES
from pilotage.kernels.env_state import EnvRules, World
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import IntArray, Pod, PodShape, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.encode import encode_shapes
from pilotage.policies.mix import typical_pods
from pilotage.sim.run import gang_members
from pilotage.workloads.generate import GIB, shipped
from pilotage.workloads.topology import labelled
from pilotage.workloads.trace import Trace

WORKER = Node("worker", 64_000, 256 * GIB)
# (CPU milli, GiB): weight. On average 2.2 CPU and 7.5 GiB, so that fifteen of them fill about half a worker.
MIXED = {
    **{(500, 1): 4, (1000, 2): 4, (2000, 4): 3, (4000, 8): 2, (8000, 16): 1},
    **{(500, 4): 2, (1000, 16): 2, (2000, 32): 1, (4000, 4): 1},
}


@dataclass(frozen=True)
class Source:
    """Nodes and pods to draw from."""

    nodes: tuple[Node, ...]
    workload: Workload


def source_of(settings: EnvSettings) -> Source:
    most = settings.nodes[1]
    if isinstance(settings.workload, Trace):
        source = Source(settings.workload.nodes, settings.workload.workload)
    elif settings.workload in ("uniform", "mixed"):
        source = Source(_workers(most), _small_pods(settings.workload))
    else:
        source = _shipped_source(settings.workload)
    if most > len(source.nodes):
        raise InputError(
            f"{most} nodes wanted of {len(source.nodes)}", field="nodes", expected="no more than the trace has"
        )
    return source


@lru_cache(maxsize=4)
def _workers(count: int) -> tuple[Node, ...]:
    nodes = [Node(f"worker-{n}", WORKER.cpu_milli, WORKER.memory_bytes, WORKER.pods) for n in range(count)]
    return labelled(nodes)


@lru_cache(maxsize=2)
def _small_pods(name: str) -> Workload:
    kinds = {(1000, 2): 1} if name == "uniform" else MIXED
    shapes = [PodShape(cpu, gib * GIB) for (cpu, gib), weight in kinds.items() for _ in range(weight)]
    return Workload.of(Pod(f"pod-{p}", shape) for p, shape in enumerate(shapes))


@lru_cache(maxsize=2)
def _shipped_source(name: str) -> Source:
    nodes, workload = shipped(name)
    return Source(labelled(nodes), workload)


def cluster_of(source: Source) -> ClusterState:
    """All nodes that may come, in one cluster: its numbers of models and resources hold in every episode."""
    asked = {name for shape in source.workload.shapes for name, _ in shape.extended}
    return ClusterState(source.nodes, asked)


def mix_of(source: Source) -> WorkloadMix:
    """What policies are prepared with."""
    return WorkloadMix.of(source.workload).on(cluster_of(source))


def world_of(source: Source) -> World:
    state = cluster_of(source)
    arrays, workload = state.arrays, source.workload
    start_U, shape_Q = _units(workload)
    labels = max(int(arrays.rack_N.max(initial=0)), int(arrays.zone_N.max(initial=0))) + 1
    return World(
        capacity_KR=arrays.capacity_NR,
        device_count_K=arrays.device_count_N,
        model_K=arrays.model_N,
        rack_K=arrays.rack_N,
        zone_K=arrays.zone_N,
        shapes=encode_shapes(state, workload.shapes),
        typical=typical_pods(mix_of(source)),
        unit_start_U=start_U,
        unit_shape_Q=shape_Q,
        number_Z=np.zeros(labels, np.int64),
    )


def _units(workload: Workload) -> tuple[IntArray, IntArray]:
    """What is drawn at once: a pod, or all pods of a gang."""
    gang_P = workload.gang_P if len(workload.gang_P) else np.full(len(workload), -1, np.int64)
    alone = [np.array([row]) for row in np.flatnonzero(gang_P < 0)]
    units = [*alone, *gang_members(workload, whole=False)]
    start_U = np.cumsum([0, *(len(rows) for rows in units)], dtype=np.int64)
    return start_U, workload.shape_P[np.concatenate(units)]


def rules_of(settings: EnvSettings) -> EnvRules:
    fewest, most = settings.nodes
    return EnvRules(
        fewest=fewest,
        most=most,
        kept_up=max(1, fewest // 2),
        pods_per_node=float(settings.pods_per_node),
        node_changes=float(settings.node_changes),
        penalty=float(settings.penalty),
        traffic=float(settings.traffic),
        fluctuation=float(settings.fluctuation),
        weight_O=np.array([settings.objectives.get(name, 0.0) for name in OBJECTIVES], np.float64),
    )
