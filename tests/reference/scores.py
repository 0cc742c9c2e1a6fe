"""Every rule's score of one node for one pod that fits there: formulas of the published simulator and kube-scheduler.

Integers throughout; `trunc` is Go's conversion of a float to an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pilotage.model.workload import PodShape
from reference.fragmentation import TypicalPod, amounts, fragmented
from reference.machines import WHOLE, View, cpu_for_scores, memory_for_scores, tag

MAX_SPEC_CPU, MAX_SPEC_GPU = 128000, 8000


def trunc(x: float) -> int:
    return math.trunc(x)


def go_div(a: int, b: int) -> int:
    """Integer division towards zero."""
    return a // b if (a >= 0) == (b > 0) else -(-a // b)


# FGD


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def fgd_step(before: float, after: float) -> int:
    return trunc(sigmoid((before - after) / 1000) * 100)


def emptiest_last(lefts: Sequence[int], milli: int, count: int) -> list[int]:
    """The first `count` devices with room, devices sorted by what is left (stable)."""
    order = sorted(range(len(lefts)), key=lambda d: lefts[d])
    return [d for d in order if lefts[d] >= milli][:count]


def fgd(pod: PodShape, node: View, typical: Sequence[TypicalPod]) -> tuple[int, int | None]:
    """Score, and the device for a pod that asks for part of one."""
    before = fragmented(amounts(node.cpu_free, node.lefts, node.model, typical))
    cpu_after = node.cpu_free - pod.cpu_milli
    if pod.gpu_count == 1 and pod.gpu_milli < WHOLE:
        best, device = -1, -1
        for d, left in enumerate(node.lefts):
            if left >= pod.gpu_milli:
                lefts = list(node.lefts)
                lefts[d] = left - pod.gpu_milli
                score = fgd_step(before, fragmented(amounts(cpu_after, lefts, node.model, typical)))
                if score > best:
                    best, device = score, d
        return best, device
    lefts = list(node.lefts)
    for d in emptiest_last(node.lefts, pod.gpu_milli, pod.gpu_count):
        lefts[d] -= pod.gpu_milli
    return fgd_step(before, fragmented(amounts(cpu_after, lefts, node.model, typical))), None


# The other published rules


def best_fit(pod: PodShape, node: View) -> int:
    """Before it is normalised over the candidates."""
    x = 0.0
    x += (node.cpu_free - pod.cpu_milli) / MAX_SPEC_CPU * 0.5
    x += (sum(node.lefts) - pod.gpu_milli * pod.gpu_count) / MAX_SPEC_GPU * 0.5
    return trunc((1 - x) * 100)


def dot_product(pod: PodShape, node: View) -> int:
    dot = (node.cpu_free / MAX_SPEC_CPU) * (pod.cpu_milli / MAX_SPEC_CPU)
    dot += (sum(node.lefts) / MAX_SPEC_GPU) * (pod.gpu_milli * pod.gpu_count / MAX_SPEC_GPU)
    return trunc(100 * (1 - dot / 2))


def gpu_packing(pod: PodShape, node: View) -> int:
    if pod.gpu_milli <= 0:
        return 0
    idle = sum(1 for left in node.lefts if left == WHOLE)
    if idle == len(node.lefts):
        return max(33 - idle, idle)
    taken = emptiest_last(node.lefts, pod.gpu_milli, pod.gpu_count)
    opened = sum(1 for d in taken if node.lefts[d] == WHOLE)
    if opened > 0:
        return max(50 - opened, 33)
    return max(100 - go_div(sum(go_div(node.lefts[d] * 100, 1000) for d in taken), 10), 50)


def gpu_clustering(pod: PodShape, node: View) -> int:
    mine = tag(pod)
    if mine is None:
        return 0
    base = go_div(25 * (8000 - sum(node.lefts)), 8000)
    if mine in node.tags:
        return base + 75 if len(node.tags) == 1 else base + 50
    return base + 25 if not node.tags else base


# kube-scheduler


def least_allocated(pod: PodShape, node: View) -> int:
    total, weights = 0, 0
    for capacity, used in _cpu_and_memory(pod, node):
        if capacity == 0:
            continue
        weights += 1
        total += 0 if used > capacity else go_div((capacity - used) * 100, capacity)
    return go_div(total, weights) if weights else 0


def most_allocated(pod: PodShape, node: View) -> int:
    total, weights = 0, 0
    for capacity, used in _cpu_and_memory(pod, node):
        if capacity == 0:
            continue
        weights += 1
        total += go_div(min(used, capacity) * 100, capacity)
    return go_div(total, weights) if weights else 0


def _cpu_and_memory(pod: PodShape, node: View) -> list[tuple[int, int]]:
    return [
        (node.cpu_capacity, node.cpu_scored + cpu_for_scores(pod)),
        (node.memory_capacity, node.memory_scored + memory_for_scores(pod)),
    ]


def balanced_allocation(pod: PodShape, node: View) -> int:
    """As kube-scheduler 1.36: by how much the pod improves the balance."""
    if pod.cpu_milli == 0 and pod.memory_bytes == 0:
        return 0
    cpu, memory = node.cpu_capacity - node.cpu_free, node.memory_capacity - node.memory_free
    without_pod = _balance(node, cpu, memory)
    with_pod = _balance(node, cpu + pod.cpu_milli, memory + pod.memory_bytes)
    return 50 + go_div(50 + with_pod - without_pod, 2)


def _balance(node: View, cpu: int, memory: int) -> int:
    fractions = []
    for used, capacity in ((cpu, node.cpu_capacity), (memory, node.memory_capacity)):
        if capacity > 0:
            fractions.append(min(used / capacity, 1.0))
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return trunc((1 - deviation) * 100)


# The project's own


def random_unit(seed: int, sequence: int) -> float:
    """The seeded random number of a decision, with Python's unbounded integers and 48 bits kept."""
    kept = 2**48
    z = (seed * 0x9E3779B9 + sequence * 0x85EBCA6B + 0x165667B1) % kept
    for _ in range(3):
        z = z ^ (z // 2**23)
        z = z * 0x2545F491 % kept
        z = z ^ (z // 2**19)
    return z / kept


def random_node(node: View, draw: float) -> float:
    return random_unit(int(draw * 2**48), node.rank)


def gang_closeness(node: View) -> float:
    """Three points for each placed pod of the gang on the node itself, two in its rack, one in its zone; in percent."""
    points = sum(3 - apart for apart in node.to_mates)
    return 100 * points / (3 * len(node.to_mates))


def gang_locality(node: View) -> float:
    """The first pod of a gang: the share of the gang for which the rack has room."""
    if node.to_mates:
        return gang_closeness(node)
    return 100 * min(1.0, node.rack_room / node.mates_left) if node.mates_left else 0.0


def gang_spread(node: View) -> float:
    return 100 - gang_closeness(node) if node.to_mates else 0.0


def normalised(raw: Sequence[float]) -> list[int]:
    """Whole numbers 0..100 over the candidates; all 0 when they are equal."""
    low, high = min(raw), max(raw)
    if low == high:
        return [0 for _ in raw]
    return [math.floor((value - low) * 100 / (high - low)) for value in raw]


Rule = Callable[[PodShape, View, Sequence[TypicalPod], float], float]

RULES: dict[str, Rule] = {
    "random@1": lambda pod, node, typical, draw: random_node(node, draw),
    "round-robin@1": lambda pod, node, typical, draw: -node.last_placed,
    "first-fit@1": lambda pod, node, typical, draw: 0,
    "least-allocated@1": lambda pod, node, typical, draw: least_allocated(pod, node),
    "most-allocated@1": lambda pod, node, typical, draw: most_allocated(pod, node),
    "balanced-allocation@1": lambda pod, node, typical, draw: balanced_allocation(pod, node),
    "dot-product@1": lambda pod, node, typical, draw: dot_product(pod, node),
    "gpu-clustering@1": lambda pod, node, typical, draw: gpu_clustering(pod, node),
    "gpu-packing@1": lambda pod, node, typical, draw: gpu_packing(pod, node),
    "best-fit@1": lambda pod, node, typical, draw: best_fit(pod, node),
    "fgd@1": lambda pod, node, typical, draw: fgd(pod, node, typical)[0],
    "gang-locality@1": lambda pod, node, typical, draw: gang_locality(node),
    "gang-spread@1": lambda pod, node, typical, draw: gang_spread(node),
}
NORMALISED = {"best-fit@1"}
DEVICE_RULE = dict.fromkeys(RULES, "best") | {"random@1": "random", "fgd@1": "fgd"}


def pick_devices(pod: PodShape, lefts: Sequence[int], rule: str, draw: float) -> tuple[int, ...]:
    """The devices of a node that a pod gets, by the device rule."""
    if pod.gpu_count == 0:
        return ()
    if pod.gpu_milli == WHOLE:
        return tuple([d for d, left in enumerate(lefts) if left == WHOLE][: pod.gpu_count])
    if pod.gpu_count > 1:
        return tuple(sorted(emptiest_last(lefts, pod.gpu_milli, pod.gpu_count)))
    room = [d for d, left in enumerate(lefts) if left >= pod.gpu_milli]
    if rule == "random":
        return (room[int(draw * len(room))],)
    chosen = room[0]
    for d in room:
        if (rule == "best" and lefts[d] < lefts[chosen]) or (rule == "worst" and lefts[d] > lefts[chosen]):
            chosen = d
    return (chosen,)
