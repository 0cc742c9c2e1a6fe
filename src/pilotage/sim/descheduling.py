"""Which running pods to move away so that the others pack better: the three published methods.

A node's F is its fragmented GPU (kernels.fragmentation). Equal nodes are taken in the order that breaks ties, equal
pods of a node in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import islice
from math import ceil
from typing import Final

import numpy as np

from pilotage.kernels.fragmentation import Typical, amount
from pilotage.kernels.scene import RUNS
from pilotage.model.cluster import CPU_AXIS
from pilotage.model.errors import UnknownNameError
from pilotage.model.workload import IntArray
from pilotage.sim.run import Run
from pilotage.workloads.simon import DESCHEDULING_METHODS

METHODS = DESCHEDULING_METHODS
SCARCE_CPU, HALF_DEVICE = 2000, 500  # milli: cosSim looks at nodes with less CPU and a device with more left


def budget_of(ratio: float, pods: int) -> int:
    """How many of `pods` pods may be moved."""
    return ceil(ratio * pods)


def victims(run: Run, method: str, budget: int) -> list[int]:
    """Rows of at most `budget` running pods, in the order in which they should leave. The run stays as it is.

    Each is chosen as if those before it had left. So fragMultiPod looks at a node without the pods it has already
    taken from it; the published simulator goes on with what was free on the node at first. Pods of gangs that run
    whole or not at all are never chosen.
    """
    if method not in METHODS:
        raise UnknownNameError("method of descheduling", method, METHODS)
    return list(islice(_CHOOSERS[method](_Occupancy.of(run)), max(budget, 0)))


@dataclass(frozen=True)
class _Occupancy:
    """What is free on nodes and who runs there: a copy, to take pods from."""

    typical: Typical
    model_N: IntArray
    count_N: IntArray  # devices
    cpu_N: IntArray  # milli left
    left_ND: IntArray
    pods_N: list[list[int]]  # movable ones, in order of arrival
    request_P: list[tuple[int, int, int]]  # CPU milli, GPU milli per device, bit mask of devices

    @classmethod
    def of(cls, run: Run) -> _Occupancy:
        scene = run.scene
        cluster, timeline, progress = scene.cluster, scene.timeline, scene.progress
        movable_P = progress.state_P == RUNS
        if timeline.whole_gangs:
            movable_P &= timeline.gang_P < 0
        rows = np.flatnonzero(movable_P)
        pods_N: list[list[int]] = [[] for _ in range(len(cluster.model_N))]
        for pod, node in zip(rows.tolist(), progress.node_P[rows].tolist(), strict=True):
            pods_N[node].append(pod)
        cpu_P = scene.shapes.request_SR[timeline.shape_P, CPU_AXIS].tolist()
        milli_P = scene.shapes.gpu_milli_S[timeline.shape_P].tolist()
        return cls(
            typical=scene.meters.typical,
            model_N=cluster.model_N,
            count_N=cluster.device_count_N,
            cpu_N=cluster.free_NR[:, CPU_AXIS].copy(),
            left_ND=cluster.device_left_ND.copy(),
            pods_N=pods_N,
            request_P=list(zip(cpu_P, milli_P, progress.devices_P.tolist(), strict=True)),
        )

    def gpu_left(self, node: int) -> int:
        return int(self.left_ND[node].sum())

    def fragmented(self, node: int, cpu: int = 0, milli: int = 0, devices: int = 0) -> float:
        """F of the node, also with so much CPU and GPU on `devices` given back."""
        model, count, free = int(self.model_N[node]), int(self.count_N[node]), int(self.cpu_N[node]) + cpu
        return float(amount(self.typical, model, free, self.left_ND, node, count, devices, -milli))

    def most_fragmenting(self, node: int) -> int | None:
        """The pod whose leaving lowers F most, counted in whole milli; None when no pod's does."""
        now, best, most = self.fragmented(node), None, 0
        seen = set()
        for pod in self.pods_N[node]:
            request = self.request_P[pod]
            if request in seen:
                continue  # as good as an earlier one
            seen.add(request)
            cpu, milli, devices = request
            gain = int(now - self.fragmented(node, cpu, milli, devices))
            if gain > most:
                best, most = pod, gain
        return best

    def least_alike(self, node: int) -> int | None:
        """The pod least like what the node would have left without it: the smallest cosine of (CPU, GPU) below 1."""
        cpu_left, gpu_left = int(self.cpu_N[node]), self.gpu_left(node)
        best, smallest = None, Fraction(1)
        for pod in self.pods_N[node]:
            cpu, milli, devices = self.request_P[pod]
            gpu = milli * devices.bit_count()
            cosine = _signed_square_of_cosine((cpu_left + cpu, gpu_left + gpu), (cpu, gpu))
            if cosine is not None and cosine < smallest:
                best, smallest = pod, cosine
        return best

    def leave(self, node: int, pod: int) -> None:
        cpu, milli, devices = self.request_P[pod]
        self.pods_N[node].remove(pod)
        self.cpu_N[node] += cpu
        for d in range(int(self.count_N[node])):
            self.left_ND[node, d] += milli * ((devices >> d) & 1)


def _signed_square_of_cosine(one: tuple[int, int], other: tuple[int, int]) -> Fraction | None:
    """In the order of cosines, but exact: parallel vectors give 1 and not nearly 1. None beside a zero vector."""
    dot = one[0] * other[0] + one[1] * other[1]
    squares = (one[0] ** 2 + one[1] ** 2) * (other[0] ** 2 + other[1] ** 2)
    return Fraction(dot * abs(dot), squares) if squares else None


def _by_cosine(occupancy: _Occupancy) -> Iterator[int]:
    """At most one pod a node, of nodes that lack CPU for the GPU they have left; most GPU left first."""
    short = (occupancy.cpu_N < SCARCE_CPU) & (occupancy.left_ND > HALF_DEVICE).any(axis=1)
    for node in sorted(np.flatnonzero(short).tolist(), key=lambda n: (-occupancy.gpu_left(n), n)):
        pod = occupancy.least_alike(node)
        if pod is not None:
            yield pod


def _one_per_node(occupancy: _Occupancy) -> Iterator[int]:
    nodes = range(len(occupancy.pods_N))
    for _, node in sorted((-occupancy.fragmented(n), n) for n in nodes):
        pod = occupancy.most_fragmenting(node)
        if pod is not None:
            yield pod


def _several_per_node(occupancy: _Occupancy) -> Iterator[int]:
    """Always from the node that is now the most fragmented; one without a pod worth moving drops out."""
    heap = [(-occupancy.fragmented(n), n) for n in range(len(occupancy.pods_N))]
    heapify(heap)
    while heap:
        _, node = heappop(heap)
        pod = occupancy.most_fragmenting(node)
        if pod is not None:
            yield pod
            occupancy.leave(node, pod)
            heappush(heap, (-occupancy.fragmented(node), node))


_CHOOSERS: Final[dict[str, Callable[[_Occupancy], Iterator[int]]]] = {
    "cosSim": _by_cosine,
    "fragOnePod": _one_per_node,
    "fragMultiPod": _several_per_node,
}
