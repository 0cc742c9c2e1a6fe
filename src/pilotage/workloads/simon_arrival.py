"""In which order the pods of a simon run are fed: by shuffle or creation time, then tuned; and the order of nodes.

The draws are those of the published simulator up to the order of nodes. After it, its draws depend on the timing of
threads, so the copies of an inflation are drawn by the same generator, but are not its copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from pilotage.kernels import gorand
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import GPU_MILLI, IntArray
from pilotage.workloads.arrivals import cooked_words, drawn_ranks, tuned_rows
from pilotage.workloads.simon import ClusterConfig
from pilotage.workloads.simon_pods import SimonPods


@dataclass(frozen=True)
class Arrival:
    """What is fed to the scheduler, and the generator for whatever is drawn later."""

    pods: SimonPods  # in the order in which they come
    rank_N: IntArray  # of each node: the smallest wins ties
    source: gorand.GoSource


def simon_arrival(pods: SimonPods, nodes: tuple[Node, ...], config: ClusterConfig) -> Arrival:
    """Order and tuning as the configuration says. `pods` are sorted by name."""
    source = gorand.go_source(config.seed, cooked_words())
    gorand.int63(source)  # drawn for a log line
    order = np.arange(len(pods.workload), dtype=np.int64)
    if config.shuffle:
        gorand.shuffle(source, order)
    else:
        created_P = np.where(pods.dated_P, pods.workload.arrival_P, np.inf)
        order = np.argsort(created_P, kind="stable")
    rows, added = _tuned(source, pods, order, nodes, config.tuning_ratio)
    rank_N = drawn_ranks(source, nodes)
    kept = len(rows) - added
    fed = [pods.take(rows[:kept])] + ([pods.copies(rows[kept:], "tuned")] if added else [])
    return Arrival(in_time(SimonPods.joined(fed)), rank_N, source)


def _tuned(
    source: gorand.GoSource, pods: SimonPods, order: IntArray, nodes: tuple[Node, ...], ratio: float
) -> tuple[IntArray, int]:
    """Rows after tuning to `ratio` x GPU capacity, and how many of them (the last ones) are copies."""
    target = ratio * GPU_MILLI * sum(node.gpu_count for node in nodes)
    asked = int(pods.workload.gpu_milli_P.sum())
    if ratio <= 0 or asked == target:
        return order, 0
    if not asked:
        problem = "no pod asks for GPU, so the load cannot be tuned"
        raise InputError(problem, field="workloadTuningConfig.ratio", expected="0")
    return tuned_rows(source, pods.workload, np.flatnonzero(~pods.daemon_P), order, target)


def in_time(pods: SimonPods) -> SimonPods:
    """Pods without a creation time come first, then the others at their times."""
    if not pods.dated_P.any():
        return pods
    return pods.take(np.argsort(np.where(pods.dated_P, pods.workload.arrival_P, -1.0), kind="stable"))


def inflation(source: gorand.GoSource, pods: SimonPods, ratio: float, room: tuple[int, int]) -> SimonPods:
    """Copies of pods drawn at random, up to `ratio` x their number; ends where `room` (CPU, GPU milli) does."""
    rows = np.flatnonzero(~pods.daemon_P)
    cpu_P = np.array([shape.cpu_milli for shape in pods.workload.shapes], np.int64)[pods.workload.shape_P]
    drawn = np.zeros(max(0, ceil(len(rows) * ratio) - len(rows)), np.int64)
    nothing = np.zeros(len(rows), np.int64)
    gorand.draw_until(source, nothing, nothing, 0, 0.0, drawn)  # no limit but the length of `drawn`
    fits = (np.cumsum(cpu_P[rows[drawn]]) <= room[0]) & (np.cumsum(pods.workload.gpu_milli_P[rows[drawn]]) <= room[1])
    return pods.copies(rows[drawn][: int(fits.sum())], "clone")
