"""Scenes: cluster, pods and compiled policy put together for a run in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from pilotage.kernels.choosing import Rules, alike, empty_cache
from pilotage.kernels.devices import DEVICE_RULES
from pilotage.kernels.episode import empty_tape, run_episode
from pilotage.kernels.meters import METERS, empty_meters, measure_all
from pilotage.kernels.scene import Neighbours, Scene, Series, Timeline, fresh_progress
from pilotage.model.cluster import ClusterArrays, ClusterState
from pilotage.model.workload import IntArray, PodShape
from pilotage.policies.api import DeviceRule, WorkloadMix
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.policies.heuristics import NO_MIX
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
    measured: bool = True,
) -> Scene:
    """Nothing has been decided yet. `about_gangs`: the policy looks at the columns about a pod's gang. `measured`:
    somebody looks at the meters."""
    N, S, P = len(state.nodes), len(shapes), len(timeline.shape_P)
    arrays, node_NF = state.arrays, encode_nodes(state, np.arange(N))
    meters = empty_meters(N, typical_pods(mix), wanted=measured)
    measure_all(arrays, meters)
    racks = int(arrays.rack_N.max(initial=-1)) + 1
    return Scene(
        cluster=arrays,
        shapes=encode_shapes(state, shapes),
        node_NF=node_NF,
        cache=empty_cache(alike(arrays, node_NF), arrays.device_left_ND.shape[1], S, rules),
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


@dataclass(frozen=True)
class Filling:
    """An empty cluster, and pods in the order in which they come: what many compiled policies are tried on.

    Who tries policies looks at where pods went, and at nothing that is measured on the way.
    """

    empty: Scene

    @classmethod
    def of(cls, state: ClusterState, shapes: Sequence[PodShape], shape_P: IntArray) -> Self:
        return cls(scene_of(state, shapes, NO_MIX, None, arrivals_only(shape_P), series_over(), measured=False))

    def first(self, pods: int) -> Filling:
        """With the first pods alone."""
        return Filling(self.empty._replace(timeline=arrivals_only(self.empty.timeline.shape_P[:pods])))

    def filled(self, rules: Rules, device_rule: DeviceRule, seed: int = 0) -> Scene:
        """After the last pod."""
        empty, shapes = self.empty, len(self.empty.shapes.gpu_count_S)
        scene = empty._replace(  # what no run changes, or nobody reads, is shared
            cluster=ClusterArrays._make(array.copy() for array in empty.cluster),
            node_NF=empty.node_NF.copy(),
            cache=empty_cache(empty.cache.kind_N, empty.cluster.device_left_ND.shape[1], shapes, rules),
            progress=fresh_progress(len(empty.timeline.shape_P), shapes, 0, 0.0),
        )
        run_episode(scene, rules, DEVICE_RULES.index(device_rule), seed, empty_tape(0, 0), -1)
        return scene
