"""The pods that arrive while something goes wrong, and nodes that they nearly fill.

Shares of a GPU, whole ones, several, CPU alone, and gangs. Sizes are powers of two, so that all of them fit: a pod that
is left without a node was lost, and one too many on a node is seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pilotage.kube.client import Json
from pilotage.lab.gangs import in_group
from pilotage.lab.load import LoadSettings, objects
from pilotage.lab.nodes import numbered
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement
from pilotage.model.workload import Gang, Pod, PodShape, Workload

POOL = "lab.pilotage/pool"
GANG_PODS = 4
GIB = 2**30


def _shape(pool: str, cpu: int, milli: int = 0, devices: int = 0) -> PodShape:
    where = Constraints(terms=((Requirement(POOL, "In", (pool,)),),))
    return PodShape(cpu_milli=1000 * cpu, memory_bytes=GIB, gpu_milli=milli, gpu_count=devices, constraints=where)


GANG_MEMBER = _shape("gpu", 2, 1000, 1)
ONES = (  # of twenty pods; the other four are a gang
    *[_shape("gpu", 1, 250, 1)] * 5,
    *[_shape("gpu", 1, 500, 1)] * 4,
    _shape("gpu", 4, 1000, 1),
    _shape("gpu", 8, 1000, 2),
    *[_shape("cpu", 1)] * 2,
    *[_shape("cpu", 2)] * 2,
    _shape("cpu", 4),
)
GPU_NODE = Node("node", 64_000, 256 * GIB, gpu_count=8, gpu_model="lab", labels=((POOL, "gpu"),))
CPU_NODE = Node("node", 16_000, 64 * GIB, labels=((POOL, "cpu"),))


@dataclass(frozen=True, slots=True)
class Arriving:
    """What is made in one round, and where."""

    namespace: str
    bodies: tuple[tuple[str, Json], ...]  # path and object
    pods: int
    gangs: dict[str, int]  # pods that each needs


def shapes_of(pods: int, *, gangs: bool) -> list[tuple[PodShape, int]]:
    """Shape of each pod and number of its gang, -1 for none; kinds are spread evenly over the arrival."""
    found: list[tuple[PodShape, int]] = []
    while len(found) < pods:
        number = len(found) // (len(ONES) + GANG_PODS)
        found += [(shape, -1) for shape in ONES]
        if gangs:
            found += [(GANG_MEMBER, number)] * GANG_PODS
    rest = pods % (len(ONES) + GANG_PODS)
    return found[:pods] if not gangs or rest == 0 or rest <= len(ONES) else found[: pods - rest + len(ONES)]


def nodes_for(pods: int, fill: float) -> list[Node]:
    """As many as the pods fill to that share."""
    shapes = [shape for shape, _ in shapes_of(pods, gangs=True)]
    gpus = sum(shape.total_gpu_milli for shape in shapes) / 1000
    cpu = sum(shape.cpu_milli for shape in shapes if not shape.gpu_count)
    wanted = (("gpu", GPU_NODE, gpus / GPU_NODE.gpu_count), ("cpu", CPU_NODE, cpu / CPU_NODE.cpu_milli))
    return [
        node for name, template, full in wanted for node in numbered(template, max(2, math.ceil(full / fill)), name)
    ]


def arriving(namespace: str, scheduler: str, pods: int, *, replaced: bool) -> Arriving:
    """`replaced`: as Deployments, whose pods come again when they are lost with their node; those have no gangs."""
    rows = shapes_of(pods, gangs=not replaced)
    if replaced:
        rows.sort(key=lambda row: repr(row[0]))  # equal ones in a row become one Deployment
    sizes = {f"{namespace}-{number}": GANG_PODS for _, number in rows if number >= 0}
    workload = Workload.of(
        Pod(f"{namespace}-{i:05d}", shape, gang=Gang(f"{namespace}-{gang}", GANG_PODS) if gang >= 0 else None)
        for i, (shape, gang) in enumerate(rows)
    )
    settings = LoadSettings(namespace, scheduler, "deployments" if replaced else "pods", name="faults")
    bodies = tuple((path, in_group(body)) for _, path, body in objects(workload, settings))
    return Arriving(namespace, bodies, len(rows), sizes)
