"""Scenes: cluster, pods and compiled policy put together for a run in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotage.kernels.choosing import Rules, empty_cache
from pilotage.kernels.meters import METERS, empty_meters, measure_all
from pilotage.kernels.scene import Neighbours, Scene, Series, Timeline, fresh_progress
from pilotage.model.cluster import ClusterState
from pilotage.model.workload import IntArray, PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.policies.mix import typical_pods


def scene_of(
    state: ClusterState,
    shapes: Sequence[PodShape],
    mix: WorkloadMix,
    rules: Rules | None,
    timeline: Timeline,
    series: Series,
    *,
    about_gangs: bool = False,
) -> Scene:
    """Nothing has been decided yet. `about_gangs`: the policy looks at the columns about a pod's gang."""
    N, S, P = len(state.nodes), len(shapes), len(timeline.shape_P)
    arrays = state.arrays
    meters = empty_meters(N, typical_pods(mix))
    measure_all(arrays, meters)
    racks = int(arrays.rack_N.max(initial=-1)) + 1
    return Scene(
        cluster=arrays,
        shapes=encode_shapes(state, shapes),
        node_NF=encode_nodes(state, np.arange(N)),
        cache=empty_cache(N, S, rules),
        meters=meters,
        timeline=timeline,
        progress=fresh_progress(P, S, len(timeline.gang_start_G) - 1, min(0.0, float(series.from_to_2[0]))),
        series=series,
        neighbours=Neighbours(
            in_zone_Z=np.zeros(int(arrays.zone_N.max(initial=-1)) + 1, np.int64),
            in_rack_K=np.zeros(racks, np.int64),
            room_K=np.zeros(racks, np.int64),
            shown_1=np.zeros(1, np.int64),
            wanted=about_gangs,
        ),
    )


def arrivals_only(shape_P: IntArray) -> Timeline:
    """Pods come one after the other and stay; what does not fit is refused."""
    P, none, never = len(shape_P), np.zeros(0, np.int64), np.zeros(0)
    return Timeline(
        shape_P=shape_P,
        arrival_P=np.arange(P, dtype=np.float64),
        duration_P=np.full(P, np.inf),
        gang_P=np.full(P, -1, np.int64),
        whole_gangs=False,
        gang_start_G=np.zeros(1, np.int64),
        gang_member_Q=none,
        event_time_E=never,
        event_node_E=none,
        event_up_E=np.zeros(0, np.bool_),
        retry=False,
        until=np.inf,
    )


def series_over(start: float = 0.0, end: float = 0.0, samples: int = 0) -> Series:
    """Room for figures over a window of time; without one nothing is sampled."""
    return Series(
        grid_G=np.linspace(start, end, samples),
        sample_GM=np.zeros((samples, len(METERS))),
        integral_M=np.zeros(len(METERS)),
        from_to_2=np.array([start, end]),
        sampled_1=np.zeros(1, np.int64),
    )
