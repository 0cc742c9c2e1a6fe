"""What a run works on: what was given, where it is, and what is measured on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.choosing import ScoreCache
from pilotage.kernels.feasibility import ShapeArrays
from pilotage.kernels.meters import Meters
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import BoolArray, FloatArray, IntArray

NOT_ARRIVED, RUNS, WAITS, FINISHED, REFUSED = range(5)
POD_STATES = ("not arrived", "running", "waiting", "finished", "refused")

# Progress.counter_X
ARRIVED, NODE_EVENTS, DEPARTURES, WAITING_PODS, FREED, ROUND, IN_ROUND, SEQUENCE = range(8)
GANG, MEMBER, WAITING_GANGS = range(8, 11)  # gang being tried + 1 (0 = none), its next member, gangs in the queue


class Neighbours(NamedTuple):
    """Scratch of the columns about a pod's gang; see kernels.neighbours."""

    in_zone_Z: IntArray
    in_rack_K: IntArray
    room_K: IntArray
    shown_1: IntArray  # gang + 1 whose columns are filled, 0 = none: all are zero
    wanted: bool  # whether the policy looks at these columns


class Timeline(NamedTuple):
    """What was given: pods (axis P) in order of arrival, node events (axis E) in order of time."""

    shape_P: IntArray
    arrival_P: FloatArray
    duration_P: FloatArray
    gang_P: IntArray  # -1 = none
    whole_gangs: bool  # gangs start whole or not at all; False: their pods are placed one by one
    gang_start_G: IntArray  # members of gang g are gang_member_Q[gang_start_G[g] : gang_start_G[g + 1]]
    gang_member_Q: IntArray
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
    waiting_since_P: FloatArray
    waited_P: FloatArray  # seconds so far, without the current wait
    heap_time_H: FloatArray
    heap_pod_H: IntArray
    next_P: IntArray  # waiting pods of one shape are a list in order of arrival
    first_S: IntArray
    last_S: IntArray
    blocked_S: IntArray  # the round of retries in which the shape last did not fit
    arrived_G: IntArray  # members of a gang that have arrived
    queue_G: IntArray  # complete gangs that wait
    blocked_G: IntArray


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
    neighbours: Neighbours


def fresh_progress(pods: int, shapes: int, gangs: int, start: float) -> Progress:
    return Progress(
        now_1=np.full(1, start),
        counter_X=np.zeros(11, np.int64),
        state_P=np.zeros(pods, np.int64),
        node_P=np.full(pods, -1, np.int64),
        devices_P=np.zeros(pods, np.int64),
        placed_at_P=np.full(pods, np.nan),
        ended_at_P=np.full(pods, np.inf),
        restarts_P=np.zeros(pods, np.int64),
        waiting_since_P=np.full(pods, np.nan),
        waited_P=np.zeros(pods),
        heap_time_H=np.zeros(pods),
        heap_pod_H=np.zeros(pods, np.int64),
        next_P=np.full(pods, -1, np.int64),
        first_S=np.full(shapes, -1, np.int64),
        last_S=np.full(shapes, -1, np.int64),
        blocked_S=np.full(shapes, -1, np.int64),
        arrived_G=np.zeros(gangs, np.int64),
        queue_G=np.zeros(gangs, np.int64),
        blocked_G=np.full(gangs, -1, np.int64),
    )
