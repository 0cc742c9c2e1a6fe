"""Victims of descheduling, node by node and pod by pod, from the published description."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from reference.fragmentation import TypicalPod, amounts, fragmented
from reference.machines import Machine


def amount_of(machine: Machine, typical: Sequence[TypicalPod]) -> float:
    return fragmented(amounts(machine.free("cpu"), machine.lefts(), machine.node.gpu_model, typical))


def without(machine: Machine, pod: int) -> Machine:
    return Machine(machine.node, machine.rank, {p: where for p, where in machine.running.items() if p != pod})


def best_pod(machine: Machine, movable: Iterable[int], typical: Sequence[TypicalPod]) -> int | None:
    """The largest whole gain above zero, the first of equals."""
    now = amount_of(machine, typical)
    gains = {
        pod: int(now - amount_of(without(machine, pod), typical)) for pod in sorted(movable) if pod in machine.running
    }
    best = max(gains, key=lambda pod: (gains[pod], -pod), default=None)
    return best if best is not None and gains[best] > 0 else None


def cos_sim(machines: Sequence[Machine], movable: set[int], budget: int) -> list[int]:
    ordered = sorted(machines, key=lambda m: (m.free("cpu") >= 2000, -sum(m.lefts()), m.rank))
    result: list[int] = []
    for machine in ordered:
        if len(result) == budget:
            break
        if machine.free("cpu") >= 2000 or not any(left > 500 for left in machine.lefts()):
            continue
        cosines = {}
        for pod in sorted(movable & machine.running.keys()):
            shape, rest = machine.running[pod][0], without(machine, pod)
            a, b = rest.free("cpu"), sum(rest.lefts())
            c, d = shape.cpu_milli, shape.gpu_milli * shape.gpu_count
            if (c, d) != (0, 0):  # its node has at least as much left without it
                cosines[pod] = Fraction((a * c + b * d) ** 2, (a * a + b * b) * (c * c + d * d))
        below = {pod: value for pod, value in cosines.items() if value < 1}
        if below:
            result.append(min(below, key=lambda pod: (below[pod], pod)))
    return result


def frag_one_pod(
    machines: Sequence[Machine], movable: set[int], budget: int, typical: Sequence[TypicalPod]
) -> list[int]:
    ordered = sorted(machines, key=lambda machine: (-amount_of(machine, typical), machine.rank))
    found = [best_pod(machine, movable, typical) for machine in ordered]
    return [pod for pod in found if pod is not None][:budget]


def frag_multi_pod(
    machines: Sequence[Machine], movable: set[int], budget: int, typical: Sequence[TypicalPod]
) -> list[int]:
    """Nodes are looked at as they are after the pods taken so far."""
    left = list(machines)
    result: list[int] = []
    while left and len(result) < budget:
        worst = min(left, key=lambda machine: (-amount_of(machine, typical), machine.rank))
        pod = best_pod(worst, movable, typical)
        left.remove(worst)
        if pod is not None:
            result.append(pod)
            left.append(without(worst, pod))
    return result
