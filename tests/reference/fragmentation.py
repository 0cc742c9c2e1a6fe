"""The fragmentation measure of a node (FGD, USENIX ATC'23), typical pod by typical pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pilotage.model.workload import PodShape
from reference.machines import WHOLE, may_use_model


@dataclass(frozen=True)
class TypicalPod:
    cpu: int
    milli: int
    count: int
    models: str
    weight: float


def amounts(cpu: int, lefts: Sequence[int], model: str, typical: Iterable[TypicalPod]) -> list[float]:
    """q1 lack both, q2 lack gpu, q3 satisfied, q4 lack cpu, xl satisfied, xr lack cpu, no access."""
    total = sum(lefts)
    result = [0.0] * 7
    for pod in typical:
        cpu_ok = cpu >= pod.cpu
        if pod.milli == 0:
            result[4 if cpu_ok else 5] += pod.weight * total
        elif not may_use_model(pod.models, model):
            result[6] += pod.weight * total
        elif sum(1 for left in lefts if left >= pod.milli) >= pod.count:
            if cpu_ok:
                useless = sum(left for left in lefts if left < pod.milli)
                result[1] += pod.weight * useless
                result[2] += pod.weight * (total - useless)
            else:
                result[3] += pod.weight * total
        else:
            result[1 if cpu_ok else 0] += pod.weight * total
    return result


def fragmented(result: Sequence[float]) -> float:
    """Everything but what is satisfied, added in the order of the categories."""
    total = 0.0
    for k in (0, 1, 3, 4, 5, 6):
        total += result[k]
    return total


def idle(result: Sequence[float]) -> float:
    total = 0.0
    for value in result:
        total += value
    return total


def typical_pods(
    pods: Sequence[PodShape], popularity: float = 95.0, step: int = 1, cpu_pods: bool = True, gpu_weight: float = 0.0
) -> list[TypicalPod]:
    """The most frequent shapes, in blocks of `step`, until they stand for `popularity` percent of the weight."""
    weight: dict[tuple[int, int, int, str], float] = {}
    for pod in pods:
        if pod.gpu_count == 0 and not cpu_pods:
            continue
        key = (pod.cpu_milli if pod.cpu_milli else 100, pod.gpu_milli, pod.gpu_count, pod.gpu_models)
        more = pod.gpu_count * gpu_weight if gpu_weight > 0 and pod.gpu_milli == WHOLE else 0.0
        weight[key] = weight.get(key, 0.0) + 1.0 + more
    ascending = sorted((value, key) for key, value in weight.items())
    descending = ascending[::-1]
    total = 0.0
    for value, _ in descending:
        total += value
    expected = popularity * total / 100
    taken, reached = 0, 0.0
    while taken < len(descending) and reached < expected:
        for value, _ in descending[taken : taken + step]:
            reached += value
            taken += 1
    result = []
    for value, (cpu, milli, count, models) in descending[:taken]:
        frequency = value / total
        if taken < len(descending):
            frequency = frequency / (reached / total)
        result.append(TypicalPod(cpu, milli, count, models, frequency))
    return result
