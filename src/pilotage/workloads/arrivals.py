"""In which order, and when, the pods of a trace arrive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from pilotage.kernels import gorand
from pilotage.kernels.gorand import UIntArray
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray, Workload

# The published simulator starts ten informers between the shuffle and the order of nodes; each draws one number.
HIDDEN_DRAWS = 10
MAX_PODS = 100_000_000


@cache
def cooked_words() -> UIntArray:
    text = resources.files("pilotage.workloads").joinpath("go_rand_cooked.txt").read_text()
    return np.array([int(line) for line in text.split()], np.int64).view(np.uint64)


@dataclass(frozen=True, slots=True)
class OpenbArrival:
    """One seed of the published protocol."""

    workload: Workload  # in order of arrival
    rank_N: IntArray  # of each given node: the smallest wins ties


def openb_arrival(workload: Workload, nodes: tuple[Node, ...], load: float, seed: int) -> OpenbArrival:
    """Shuffles and tunes the trace to `load` x GPU capacity exactly as the published simulator does for this seed.

    load 0 leaves the trace as it is (shuffled).
    """
    source = gorand.go_source(seed, cooked_words())
    gorand.int63(source)  # the published simulator logs one number before it shuffles
    by_name = np.array(sorted(range(len(workload)), key=workload.names.__getitem__), np.int64)
    order = by_name.copy()
    gorand.shuffle(source, order)
    capacity = GPU_MILLI * sum(node.gpu_count for node in nodes)
    rows, added = tuned_rows(source, workload, by_name, order, load * capacity) if load > 0 else (order, 0)
    rank_N = drawn_ranks(source, nodes)
    kept = len(rows) - added
    names = [workload.names[i] for i in rows[:kept]]
    names += [f"{workload.names[i]}-tuned-{k}" for k, i in enumerate(rows[kept:])]
    return OpenbArrival(workload.take(rows, names), rank_N)


def drawn_ranks(source: gorand.GoSource, nodes: tuple[Node, ...]) -> IntArray:
    """The order of nodes that the published simulator draws once the pods are in order: the rank of each node."""
    for _ in range(HIDDEN_DRAWS):
        gorand.int63(source)
    permutation = np.zeros(len(nodes), np.int64)
    gorand.permutation(source, permutation)
    rank_N = np.empty(len(nodes), np.int64)
    rank_N[sorted(range(len(nodes)), key=lambda n: nodes[n].name)] = permutation
    return rank_N


def tuned_rows(
    source: gorand.GoSource, workload: Workload, by_name: IntArray, order: IntArray, target: float
) -> tuple[IntArray, int]:
    """Rows after tuning, and how many of them (the last ones) were added."""
    total_P = workload.gpu_milli_P
    total = int(total_P.sum())
    if total == 0:
        raise InputError("no pod asks for GPU, so the load cannot be tuned", field="load", expected="load 0")
    if total > target:
        tree = np.zeros(len(order) + 1, np.int64)
        kept = order[: gorand.remove_until(source, order, total_P, total, target, tree)]
        if not len(kept):
            problem = f"leaves none of the {len(order)} pods"
            raise InputError(problem, field="load", expected="a higher load, or 0 for the trace as it is")
        return kept, 0
    if total == target:
        return order, 0
    one_P = np.array([shape.gpu_milli for shape in workload.shapes], np.int64)[workload.shape_P]
    room = int(np.ceil((target - total) / total * len(workload) * 1.5)) + 1000
    while room < MAX_PODS:
        words, position = source.word_607.copy(), source.position_2.copy()
        drawn = np.zeros(room, np.int64)
        count = gorand.draw_until(source, one_P[by_name], total_P[by_name], total, target, drawn)
        if count >= 0:
            return np.concatenate([order, by_name[drawn[:count]]]), int(count)
        source.word_607[:], source.position_2[:] = words, position
        room *= 2
    raise InputError(f"tuning to this load needs more than {MAX_PODS} pods", field="load")


def poisson_arrival(
    workload: Workload, nodes: tuple[Node, ...], load: float, seed: int, arrivals: int | None = None
) -> Workload:
    """Pods drawn from the trace with replacement, arriving as a Poisson process that offers `load`.

    The load is offered GPU time over GPU capacity (CPU time where no pod asks for GPU). The run starts in the steady
    state: at time 0 come the pods that would be running in a cluster without limits (long ones in proportion to their
    length, with what is left of their time). Real durations have long tails; from an empty cluster the steady state
    would not be reached within any sensible number of arrivals.
    """
    if not np.isfinite(load) or load <= 0:
        raise InputError(f"load {load}", field="load", expected="a positive number")
    if workload.gangs:
        raise InputError("pods of gangs cannot be drawn one by one", expected="the trace's own times, without --load")
    if not np.isfinite(workload.duration_P).all():
        raise InputError("some pods never depart, so no steady load can be offered", expected="pods with durations")
    amount_P, capacity = _amounts(workload, nodes)
    work = float((amount_P * workload.duration_P).mean())
    if work <= 0 or capacity <= 0:
        raise InputError("the pods ask for nothing over time, so no load can be offered")
    rate = load * capacity / work
    length_P = workload.duration_P
    random = np.random.Generator(np.random.PCG64(seed))
    running = int(random.poisson(rate * length_P.mean()))
    if running + (arrivals or 0) > MAX_PODS:
        raise InputError(f"this load needs more than {MAX_PODS} pods", field="load")
    first = random.choice(len(workload), size=running, p=length_P / length_P.sum())
    left = length_P[first] * random.random(running)
    count = arrivals or len(workload)
    later = random.integers(len(workload), size=count)
    times = np.cumsum(random.exponential(1 / rate, size=count))
    rows = np.concatenate([first, later])
    names = [f"{workload.names[i]}-draw-{k}" for k, i in enumerate(rows)]
    return replace(
        workload.take(rows, names),
        arrival_P=np.concatenate([np.zeros(running), times]),
        duration_P=np.concatenate([left, length_P[later]]),
        timed=True,
    )


def _amounts(workload: Workload, nodes: tuple[Node, ...]) -> tuple[FloatArray, float]:
    """What the load is counted in: GPU milli, or CPU milli where GPUs play no part."""
    gpu_P, gpus = workload.gpu_milli_P.astype(np.float64), sum(node.gpu_count for node in nodes)
    if gpu_P.any() and gpus:
        return gpu_P, float(GPU_MILLI * gpus)
    cpu_S = np.array([shape.cpu_milli for shape in workload.shapes], np.float64)
    return cpu_S[workload.shape_P], float(sum(node.cpu_milli for node in nodes))
