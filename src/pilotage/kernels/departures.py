"""Departures to come: a binary heap by (time, pod)."""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, inner
from pilotage.kernels.scene import DEPARTURES, RUNS, Progress


@inlined_inner
def push_departure(progress: Progress, pod: int) -> None:
    time_H, pod_H = progress.heap_time_H, progress.heap_pod_H
    i = progress.counter_X[DEPARTURES]
    progress.counter_X[DEPARTURES] += 1
    time = progress.ended_at_P[pod]
    while i > 0:
        parent = (i - 1) >> 1
        if time_H[parent] < time or (time_H[parent] == time and pod_H[parent] < pod):
            break
        time_H[i], pod_H[i] = time_H[parent], pod_H[parent]
        i = parent
    time_H[i], pod_H[i] = time, pod


@inlined_inner
def pop_departure(progress: Progress) -> None:
    time_H, pod_H = progress.heap_time_H, progress.heap_pod_H
    progress.counter_X[DEPARTURES] -= 1
    size = progress.counter_X[DEPARTURES]
    time, pod = time_H[size], pod_H[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            time_H[right] < time_H[child] or (time_H[right] == time_H[child] and pod_H[right] < pod_H[child])
        ):
            child = right
        if time < time_H[child] or (time == time_H[child] and pod < pod_H[child]):
            break
        time_H[i], pod_H[i] = time_H[child], pod_H[child]
        i = child
    time_H[i], pod_H[i] = time, pod


@inner
def forget_evicted(progress: Progress) -> None:
    """Builds the heap anew from the pods that still run."""
    size = progress.counter_X[DEPARTURES]
    progress.counter_X[DEPARTURES] = 0
    for i in range(size):
        pod = progress.heap_pod_H[i]
        if progress.state_P[pod] == RUNS:
            push_departure(progress, pod)  # never writes beyond what was read
