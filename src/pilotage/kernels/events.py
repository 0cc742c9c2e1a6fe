"""What happens when: arrivals, departures, node failures and recoveries, and the retries of waiting pods.

The order at one moment is departures, node events, retries, arrivals. A gang is tried when its last pod has arrived:
pod after pod, and when one does not fit all are taken back, so that a gang runs whole or not at all.
`next_decision` runs the clock to the next pod that must be decided; `decide` carries the decision out. Compiled runs
and policies in plain Python share both.
"""

from __future__ import annotations

import numpy as np

from pilotage.kernels.choosing import note_change
from pilotage.kernels.compiling import inlined_inner, inner, kernel
from pilotage.kernels.departures import forget_evicted, pop_departure, push_departure
from pilotage.kernels.features import encode_node
from pilotage.kernels.meters import RUNNING, WAITING, WAITING_GPU, measure_node
from pilotage.kernels.scene import (
    ARRIVED,
    DEPARTURES,
    FINISHED,
    FREED,
    GANG,
    IN_ROUND,
    MEMBER,
    NODE_EVENTS,
    REFUSED,
    ROUND,
    RUNS,
    SEQUENCE,
    WAITING_GANGS,
    WAITING_PODS,
    WAITS,
    Progress,
    Scene,
)
from pilotage.model.cluster import Demand, shift
from pilotage.model.workload import FloatArray, IntArray

shift_resources = inlined_inner(shift)


@inlined_inner
def next_decision(scene: Scene) -> int:
    """Runs the clock up to the next pod that needs a decision; -1 at the end of the run."""
    progress, timeline = scene.progress, scene.timeline
    counter = progress.counter_X
    while True:
        if counter[GANG] > 0:
            return timeline.gang_member_Q[counter[MEMBER]]
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
            if timeline.whole_gangs and timeline.gang_P[i] >= 0:
                join_gang(scene, i)
            elif progress.first_S[timeline.shape_P[i]] < 0:
                return i
            else:
                wait(scene, i)  # one of its shape already waits and nothing was freed: it cannot fit either


@inner
def next_retry(scene: Scene) -> int:
    """First waiting pod or gang, by priority then arrival, that has not failed in this round; -1 = round over."""
    progress, timeline, now = scene.progress, scene.timeline, scene.progress.counter_X[ROUND]
    best, gang = -1, -1
    for s in range(progress.first_S.shape[0]):
        if progress.first_S[s] >= 0 and progress.blocked_S[s] != now and ahead(scene, progress.first_S[s], best):
            best = progress.first_S[s]
    for q in range(progress.counter_X[WAITING_GANGS]):
        g = progress.queue_G[q]
        pod = timeline.gang_member_Q[timeline.gang_start_G[g]]
        if progress.blocked_G[g] != now and ahead(scene, pod, best):
            best, gang = pod, g
    if gang >= 0:
        return try_gang(scene, gang)
    return best


@inlined_inner
def ahead(scene: Scene, pod: int, other: int) -> bool:
    """Whether `pod` is tried before `other` (-1 = nobody)."""
    if other < 0:
        return True
    shape_P, priority_S = scene.timeline.shape_P, scene.shapes.priority_S
    lead = priority_S[shape_P[pod]] - priority_S[shape_P[other]]
    return lead > 0 or (lead == 0 and pod < other)


@inlined_inner
def decide(scene: Scene, pod: int, node: int, devices: int) -> None:
    """Carries out a decision: the pod runs on `node` (and its `devices`), or -1: it waits or is refused."""
    progress, timeline = scene.progress, scene.timeline
    s = timeline.shape_P[pod]
    progress.counter_X[SEQUENCE] += 1
    if progress.counter_X[GANG] > 0:
        decide_member(scene, pod, node, devices)
        return
    if node < 0:
        progress.blocked_S[s] = progress.counter_X[ROUND]
        if not timeline.retry:
            progress.state_P[pod] = REFUSED
        elif progress.state_P[pod] != WAITS:
            wait(scene, pod)
        return
    if progress.state_P[pod] == WAITS:
        stop_waiting(scene, pod)
    place(scene, pod, node, devices)
    expect_departure(scene, pod)


@inlined_inner
def place(scene: Scene, pod: int, node: int, devices: int) -> None:
    progress = scene.progress
    progress.state_P[pod], progress.node_P[pod], progress.devices_P[pod] = RUNS, node, devices
    progress.placed_at_P[pod] = progress.now_1[0]
    scene.cluster.last_placed_N[node] = progress.counter_X[SEQUENCE]
    occupy(scene, scene.timeline.shape_P[pod], node, devices, 1)


@inlined_inner
def expect_departure(scene: Scene, pod: int) -> None:
    if scene.timeline.duration_P[pod] < np.inf:
        scene.progress.ended_at_P[pod] = scene.progress.now_1[0] + scene.timeline.duration_P[pod]
        push_departure(scene.progress, pod)


@inner
def take_back(scene: Scene, pod: int) -> None:
    """The pod gives its resources back and waits; whoever calls puts it into a queue."""
    progress = scene.progress
    occupy(scene, scene.timeline.shape_P[pod], progress.node_P[pod], progress.devices_P[pod], -1)
    progress.state_P[pod], progress.node_P[pod], progress.devices_P[pod] = WAITS, -1, 0
    progress.placed_at_P[pod], progress.ended_at_P[pod] = np.nan, np.inf


@inner
def join_gang(scene: Scene, pod: int) -> None:
    """A pod of a gang arrives: it waits, and with the last one the gang is tried."""
    progress, g = scene.progress, scene.timeline.gang_P[pod]
    progress.state_P[pod] = WAITS
    count_waiting(scene, pod, 1)
    progress.arrived_G[g] += 1
    if progress.arrived_G[g] == scene.timeline.gang_start_G[g + 1] - scene.timeline.gang_start_G[g]:
        queue_gang(progress, g)
        try_gang(scene, g)


@inlined_inner
def queue_gang(progress: Progress, g: int) -> None:
    progress.queue_G[progress.counter_X[WAITING_GANGS]] = g
    progress.counter_X[WAITING_GANGS] += 1


@inner
def try_gang(scene: Scene, g: int) -> int:
    """Starts with the first member that waits (a finished one needs no node any more); returns it."""
    counter = scene.progress.counter_X
    counter[GANG] = g + 1
    counter[MEMBER] = next_member(scene, g, scene.timeline.gang_start_G[g])
    return scene.timeline.gang_member_Q[counter[MEMBER]]


@inlined_inner
def next_member(scene: Scene, g: int, q: int) -> int:
    """Position of the first member from q on that waits; the end of the gang when there is none."""
    end = scene.timeline.gang_start_G[g + 1]
    while q < end and scene.progress.state_P[scene.timeline.gang_member_Q[q]] != WAITS:
        q += 1
    return q


@inner
def decide_member(scene: Scene, pod: int, node: int, devices: int) -> None:
    """One member of the gang that is tried: when it does not fit, those placed before it are taken back."""
    progress, timeline = scene.progress, scene.timeline
    counter = progress.counter_X
    g = counter[GANG] - 1
    if node < 0:
        for q in range(timeline.gang_start_G[g], counter[MEMBER]):
            member = timeline.gang_member_Q[q]
            # Placed in this attempt: running without an end to come, or finished long ago.
            if progress.state_P[member] == RUNS:
                take_back(scene, member)
        progress.blocked_G[g] = counter[ROUND]
        counter[GANG] = 0
        return
    place(scene, pod, node, devices)
    counter[MEMBER] = next_member(scene, g, counter[MEMBER])
    if counter[MEMBER] == timeline.gang_start_G[g + 1]:
        start_gang(scene, g)


@inner
def start_gang(scene: Scene, g: int) -> None:
    """Every member has its node: the gang leaves the queue and runs."""
    progress, timeline = scene.progress, scene.timeline
    for q in range(timeline.gang_start_G[g], timeline.gang_start_G[g + 1]):
        pod = timeline.gang_member_Q[q]
        if progress.state_P[pod] == RUNS:
            count_waiting(scene, pod, -1)
            expect_departure(scene, pod)
    progress.counter_X[GANG] = 0
    kept = 0
    for q in range(progress.counter_X[WAITING_GANGS]):
        if progress.queue_G[q] != g:
            progress.queue_G[kept] = progress.queue_G[q]
            kept += 1
    progress.counter_X[WAITING_GANGS] = kept


@inlined_inner
def occupy(scene: Scene, s: int, node: int, devices: int, sign: int) -> None:
    """Takes or gives back a pod's resources and brings everything that depends on the node up to date."""
    shapes = scene.shapes
    demand = Demand(shapes.request_SR[s], shapes.scored_S2[s], shapes.gpu_milli_S[s], shapes.gpu_count_S[s])
    shift_resources(scene.cluster, demand, node, devices, sign)
    encode_node(scene.cluster, node, node, scene.node_NF)
    note_change(scene.cache, node, sign < 0)
    if scene.meters.wanted:
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
                if scene.timeline.whole_gangs and scene.timeline.gang_P[pod] >= 0:
                    evict_gang(scene, scene.timeline.gang_P[pod])
                else:
                    evict(scene, pod)
        forget_evicted(scene.progress)
    scene.cluster.alive_N[node] = up
    note_change(scene.cache, node, True)
    scene.progress.counter_X[FREED] = 1  # recovered: room; failed: its pods must be tried elsewhere


@inner
def evict(scene: Scene, pod: int) -> None:
    take_back(scene, pod)
    scene.progress.restarts_P[pod] += 1
    if scene.timeline.retry:
        wait(scene, pod)
    else:
        scene.progress.state_P[pod] = REFUSED


@kernel
def move_out(scene: Scene, pods: IntArray, left_P: FloatArray) -> None:
    """Running pods leave their nodes and wait, to run for what is left of their time: consolidation."""
    for pod in pods:
        take_back(scene, pod)
        scene.timeline.duration_P[pod] = left_P[pod]
        wait(scene, pod)
    forget_evicted(scene.progress)
    scene.progress.counter_X[FREED] = 1


@inner
def evict_gang(scene: Scene, g: int) -> None:
    """A gang that loses a pod stops as a whole and is tried again."""
    for q in range(scene.timeline.gang_start_G[g], scene.timeline.gang_start_G[g + 1]):
        pod = scene.timeline.gang_member_Q[q]
        if scene.progress.state_P[pod] == RUNS:
            take_back(scene, pod)
            scene.progress.restarts_P[pod] += 1
            count_waiting(scene, pod, 1)
    queue_gang(scene.progress, g)


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
    count_waiting(scene, pod, 1)


@inlined_inner
def stop_waiting(scene: Scene, pod: int) -> None:
    """Only the first of a shape is ever tried, so only the first can stop waiting."""
    s = scene.timeline.shape_P[pod]
    scene.progress.first_S[s] = scene.progress.next_P[pod]
    scene.progress.next_P[pod] = -1
    count_waiting(scene, pod, -1)


@inlined_inner
def count_waiting(scene: Scene, pod: int, sign: int) -> None:
    """A pod starts (1) or stops (-1) to wait."""
    progress, now = scene.progress, scene.progress.now_1[0]
    if sign > 0:
        progress.waiting_since_P[pod] = now
    else:
        progress.waited_P[pod] += now - progress.waiting_since_P[pod]
    s = scene.timeline.shape_P[pod]
    progress.counter_X[WAITING_PODS] += sign
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
