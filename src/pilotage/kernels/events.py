"""What happens when: arrivals, departures, node failures and recoveries, and the retries of waiting pods.

The order at one moment is departures, node events, retries, arrivals. `next_decision` runs the clock to the next pod
that must be decided; `decide` carries the decision out. Compiled runs and policies in plain Python share both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.choosing import ScoreCache, note_change
from pilotage.kernels.compiling import inlined_inner, inner
from pilotage.kernels.feasibility import ShapeArrays
from pilotage.kernels.features import encode_node
from pilotage.kernels.meters import RUNNING, WAITING, WAITING_GPU, Meters, measure_node
from pilotage.model.cluster import ClusterArrays, Demand, shift
from pilotage.model.workload import BoolArray, FloatArray, IntArray

NOT_ARRIVED, RUNS, WAITS, FINISHED, REFUSED = range(5)
POD_STATES = ("not arrived", "running", "waiting", "finished", "refused")

# Progress.counter_X
ARRIVED, NODE_EVENTS, DEPARTURES, WAITING_PODS, FREED, ROUND, IN_ROUND, SEQUENCE = range(8)

shift_resources = inlined_inner(shift)


class Timeline(NamedTuple):
    """What was given: pods (axis P) in order of arrival, node events (axis E) in order of time."""

    shape_P: IntArray
    arrival_P: FloatArray
    duration_P: FloatArray
    event_time_E: FloatArray
    event_node_E: IntArray
    event_up_E: BoolArray
    retry: bool  # False: a pod that does not fit when it arrives is refused for good
    until: float  # the clock stops here


class Progress(NamedTuple):
    """Where the run is."""

    now_1: FloatArray
    counter_X: IntArray
    state_P: IntArray
    node_P: IntArray
    devices_P: IntArray
    placed_at_P: FloatArray  # of the last placement
    ended_at_P: FloatArray  # when it departs or departed
    restarts_P: IntArray
    heap_time_H: FloatArray
    heap_pod_H: IntArray
    next_P: IntArray  # waiting pods of one shape are a list in order of arrival
    first_S: IntArray
    last_S: IntArray
    blocked_S: IntArray  # the round of retries in which the shape last did not fit


class Series(NamedTuple):
    """Figures over time: a sample per point of a grid, and integrals after the warm-up."""

    grid_G: FloatArray
    sample_GM: FloatArray
    integral_M: FloatArray
    from_to_2: FloatArray  # integration window
    sampled_1: IntArray


class Scene(NamedTuple):
    """Cluster and pods as a run sees them."""

    cluster: ClusterArrays
    shapes: ShapeArrays
    node_NF: FloatArray
    cache: ScoreCache
    meters: Meters
    timeline: Timeline
    progress: Progress
    series: Series


def fresh_progress(pods: int, shapes: int, start: float) -> Progress:
    return Progress(
        now_1=np.full(1, start),
        counter_X=np.zeros(8, np.int64),
        state_P=np.zeros(pods, np.int64),
        node_P=np.full(pods, -1, np.int64),
        devices_P=np.zeros(pods, np.int64),
        placed_at_P=np.full(pods, np.nan),
        ended_at_P=np.full(pods, np.inf),
        restarts_P=np.zeros(pods, np.int64),
        heap_time_H=np.zeros(pods),
        heap_pod_H=np.zeros(pods, np.int64),
        next_P=np.full(pods, -1, np.int64),
        first_S=np.full(shapes, -1, np.int64),
        last_S=np.full(shapes, -1, np.int64),
        blocked_S=np.full(shapes, -1, np.int64),
    )


@inlined_inner
def next_decision(scene: Scene) -> int:
    """Runs the clock up to the next pod that needs a decision; -1 at the end of the run."""
    progress, timeline = scene.progress, scene.timeline
    counter = progress.counter_X
    while True:
        if counter[IN_ROUND]:
            pod = next_retry(scene)
            if pod >= 0:
                return pod
            counter[IN_ROUND] = 0
        departure = progress.heap_time_H[0] if counter[DEPARTURES] > 0 else np.inf
        i, e = counter[ARRIVED], counter[NODE_EVENTS]
        node_event = timeline.event_time_E[e] if e < timeline.event_time_E.shape[0] else np.inf
        arrival = timeline.arrival_P[i] if i < timeline.arrival_P.shape[0] else np.inf
        freeing = min(departure, node_event)
        if counter[FREED] and freeing > progress.now_1[0]:
            counter[FREED] = 0
            if counter[WAITING_PODS] > 0:
                counter[IN_ROUND] = 1
                counter[ROUND] += 1
                continue
        moment = min(freeing, arrival)
        if moment > timeline.until or moment == np.inf:
            pass_time(scene, min(timeline.until, moment))
            return -1
        pass_time(scene, moment)
        if departure <= moment:
            depart(scene)
        elif node_event <= moment:
            change_node(scene, timeline.event_node_E[e], timeline.event_up_E[e])
            counter[NODE_EVENTS] += 1
        else:
            counter[ARRIVED] += 1
            if progress.first_S[timeline.shape_P[i]] < 0:
                return i
            wait(scene, i)  # one of its shape already waits and nothing was freed: it cannot fit either


@inner
def next_retry(scene: Scene) -> int:
    """First waiting pod, by priority then arrival, whose shape has not failed in this round; -1 = round over."""
    progress, timeline = scene.progress, scene.timeline
    best = -1
    for s in range(progress.first_S.shape[0]):
        pod = progress.first_S[s]
        if pod < 0 or progress.blocked_S[s] == progress.counter_X[ROUND]:
            continue
        if best >= 0:
            ahead = scene.shapes.priority_S[s] - scene.shapes.priority_S[timeline.shape_P[best]]
            if ahead < 0 or (ahead == 0 and pod > best):
                continue
        best = pod
    return best


@inlined_inner
def decide(scene: Scene, pod: int, node: int, devices: int) -> None:
    """Carries out a decision: the pod runs on `node` (and its `devices`), or -1: it waits or is refused."""
    progress, timeline = scene.progress, scene.timeline
    s, now = timeline.shape_P[pod], progress.now_1[0]
    progress.counter_X[SEQUENCE] += 1
    if node < 0:
        progress.blocked_S[s] = progress.counter_X[ROUND]
        if not timeline.retry:
            progress.state_P[pod] = REFUSED
        elif progress.state_P[pod] != WAITS:
            wait(scene, pod)
        return
    if progress.state_P[pod] == WAITS:
        stop_waiting(scene, pod)
    progress.state_P[pod] = RUNS
    progress.node_P[pod], progress.devices_P[pod], progress.placed_at_P[pod] = node, devices, now
    scene.cluster.last_placed_N[node] = progress.counter_X[SEQUENCE]
    occupy(scene, s, node, devices, 1)
    if timeline.duration_P[pod] < np.inf:
        progress.ended_at_P[pod] = now + timeline.duration_P[pod]
        push_departure(progress, pod)


@inner
def occupy(scene: Scene, s: int, node: int, devices: int, sign: int) -> None:
    """Takes or gives back a pod's resources and brings everything that depends on the node up to date."""
    shapes = scene.shapes
    demand = Demand(shapes.request_SR[s], shapes.scored_S2[s], shapes.gpu_milli_S[s], shapes.gpu_count_S[s])
    shift_resources(scene.cluster, demand, node, devices, sign)
    encode_node(scene.cluster, node, node, scene.node_NF)
    note_change(scene.cache, node)
    measure_node(scene.cluster, scene.meters, node)
    scene.meters.total_M[RUNNING] += sign


@inner
def depart(scene: Scene) -> None:
    progress = scene.progress
    pod = progress.heap_pod_H[0]
    pop_departure(progress)
    progress.state_P[pod] = FINISHED
    occupy(scene, scene.timeline.shape_P[pod], progress.node_P[pod], progress.devices_P[pod], -1)
    progress.counter_X[FREED] = 1


@inner
def change_node(scene: Scene, node: int, up: bool) -> None:
    """A failing node loses its pods: they wait again, from the start. A recovered one is empty."""
    if scene.cluster.alive_N[node] == up:
        return
    if not up:
        for pod in range(scene.progress.counter_X[ARRIVED]):
            if scene.progress.state_P[pod] == RUNS and scene.progress.node_P[pod] == node:
                evict(scene, pod)
        drop_departures_of_evicted(scene.progress)
    scene.cluster.alive_N[node] = up
    note_change(scene.cache, node)
    scene.progress.counter_X[FREED] = 1  # recovered: room; failed: its pods must be tried elsewhere


@inner
def evict(scene: Scene, pod: int) -> None:
    progress = scene.progress
    occupy(scene, scene.timeline.shape_P[pod], progress.node_P[pod], progress.devices_P[pod], -1)
    progress.node_P[pod], progress.devices_P[pod] = -1, 0
    progress.placed_at_P[pod], progress.ended_at_P[pod] = np.nan, np.inf
    progress.restarts_P[pod] += 1
    if scene.timeline.retry:
        wait(scene, pod)
    else:
        progress.state_P[pod] = REFUSED


@inner
def drop_departures_of_evicted(progress: Progress) -> None:
    """Builds the heap anew from the pods that still run."""
    size = progress.counter_X[DEPARTURES]
    progress.counter_X[DEPARTURES] = 0
    for i in range(size):
        pod = progress.heap_pod_H[i]
        if progress.state_P[pod] == RUNS:
            push_departure(progress, pod)  # never writes beyond what was read


@inner
def wait(scene: Scene, pod: int) -> None:
    """Puts the pod into the list of its shape, in order of arrival."""
    progress, s = scene.progress, scene.timeline.shape_P[pod]
    progress.state_P[pod] = WAITS
    if progress.first_S[s] < 0 or pod < progress.first_S[s]:
        progress.next_P[pod] = progress.first_S[s]
        progress.first_S[s] = pod
    else:
        before = progress.last_S[s]  # nearly always the newest pod waits next
        if pod < before:
            before = progress.first_S[s]
            while progress.next_P[before] < pod:
                before = progress.next_P[before]
        progress.next_P[pod] = progress.next_P[before]
        progress.next_P[before] = pod
    if progress.next_P[pod] < 0:
        progress.last_S[s] = pod
    count_waiting(scene, s, 1)


@inlined_inner
def stop_waiting(scene: Scene, pod: int) -> None:
    """Only the first of a shape is ever tried, so only the first can stop waiting."""
    s = scene.timeline.shape_P[pod]
    scene.progress.first_S[s] = scene.progress.next_P[pod]
    scene.progress.next_P[pod] = -1
    count_waiting(scene, s, -1)


@inlined_inner
def count_waiting(scene: Scene, s: int, sign: int) -> None:
    scene.progress.counter_X[WAITING_PODS] += sign
    scene.meters.total_M[WAITING] += sign
    scene.meters.total_M[WAITING_GPU] += sign * scene.shapes.gpu_milli_S[s] * scene.shapes.gpu_count_S[s]


@inlined_inner
def pass_time(scene: Scene, moment: float) -> None:
    """Moves the clock; what the meters showed until now goes into samples and integrals."""
    now, series, total_M = scene.progress.now_1[0], scene.series, scene.meters.total_M
    if moment <= now:
        return
    span = min(moment, series.from_to_2[1]) - max(now, series.from_to_2[0])
    if span > 0:
        for m in range(total_M.shape[0]):
            series.integral_M[m] += total_M[m] * span
    g = series.sampled_1[0]
    while g < series.grid_G.shape[0] and series.grid_G[g] < moment:
        for m in range(total_M.shape[0]):
            series.sample_GM[g, m] = total_M[m]
        g += 1
    series.sampled_1[0] = g
    if moment < np.inf:
        scene.progress.now_1[0] = moment


@inlined_inner
def push_departure(progress: Progress, pod: int) -> None:
    """Binary heap by (time, pod)."""
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
