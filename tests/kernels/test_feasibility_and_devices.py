"""Which nodes are candidates, and which devices a pod gets, against slow twins."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pilotage.kernels.devices import DEVICE_RULES, choose_devices
from pilotage.kernels.feasibility import (
    FITS,
    NO_GPU_LEFT,
    NO_RESOURCE,
    NODE_DOWN,
    NOT_ELIGIBLE,
    feasible_some,
    narrowing_reason,
    obstacles,
)
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import PodShape
from pilotage.policies.encode import encode_shapes
from reference.choices import mask
from reference.machines import View, allowed, devices_fit, enough, fits
from reference.scores import pick_devices
from reference.strategies import checked, gpu_requests, shapes, used_clusters

LEFTS = st.lists(st.one_of(st.sampled_from([0, 250, 500, 1000, 1000]), st.integers(0, 1000)), min_size=1, max_size=8)


@given(used_clusters(), st.lists(shapes(nodes=["n0", "n1"]), min_size=1, max_size=4))
@checked(300)
def test_candidates_are_exactly_the_nodes_on_which_the_pod_fits(
    cluster: tuple[ClusterState, list[View]], asked: list[PodShape]
) -> None:
    state, views = cluster
    encoded = encode_shapes(state, asked)
    feasible_N, obstacle_N = np.zeros(len(views), np.bool_), np.zeros(len(views), np.int64)
    for s, shape in enumerate(asked):
        feasible_some(state.arrays, encoded, s, np.arange(len(views)), feasible_N)
        obstacles(state.arrays, encoded, s, obstacle_N)
        assert feasible_N.tolist() == [reason == FITS for reason in obstacle_N.tolist()]
        for n, node in enumerate(state.nodes):
            free = dict(zip(state.resources, state.arrays.free_NR[n].tolist(), strict=True))
            assert feasible_N[n] == fits(node, bool(state.arrays.alive_N[n]), free, views[n].lefts, shape)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (PodShape(1000), FITS),
        (PodShape(1001), NO_RESOURCE),
        (PodShape(0, 2), NO_RESOURCE + 1),
        (PodShape(gpu_milli=500, gpu_count=2), FITS),
        (PodShape(gpu_milli=501, gpu_count=2), NO_GPU_LEFT),
        (PodShape(gpu_milli=1, gpu_count=3), NO_GPU_LEFT),
        (PodShape(gpu_milli=500, gpu_count=1, gpu_devices=0b10), FITS),
        (PodShape(gpu_milli=1000, gpu_count=1, gpu_devices=0b10), NO_GPU_LEFT),  # the other one has room
        (PodShape(gpu_milli=1, gpu_count=1, gpu_models="B"), NOT_ELIGIBLE),
        (PodShape(extended=(("unknown", 1),)), NO_RESOURCE + 2),
    ],
)
def test_the_first_obstacle_is_named(shape: PodShape, reason: int) -> None:
    state = ClusterState([Node("n", 1000, 1, gpu_count=2, gpu_model="A")])
    state.arrays.device_left_ND[0, 1] = 500
    found_N = np.zeros(1, np.int64)
    obstacles(state.arrays, encode_shapes(state, [shape]), 0, found_N)
    assert found_N[0] == reason
    state.arrays.alive_N[0] = False
    obstacles(state.arrays, encode_shapes(state, [shape]), 0, found_N)
    assert found_N[0] == NODE_DOWN


def test_what_a_pod_does_not_ask_for_is_no_obstacle_where_others_took_too_much() -> None:
    state = ClusterState([Node("n", 1000, 1)])
    state.arrays.free_NR[0, 0] = -1
    for shape, reason in ((PodShape(0, 2), NO_RESOURCE + 1), (PodShape(1, 2), NO_RESOURCE)):
        encoded, found_N = encode_shapes(state, [shape]), np.zeros(1, np.int64)
        obstacles(state.arrays, encoded, 0, found_N)
        assert found_N[0] == narrowing_reason(state.arrays, encoded, 0) == reason


@given(used_clusters(), shapes())
@checked(200)
def test_the_reason_of_a_refusal_is_the_test_that_took_the_last_nodes(
    cluster: tuple[ClusterState, list[View]], shape: PodShape
) -> None:
    state, views = cluster
    free = [dict(zip(state.resources, row, strict=True)) for row in state.arrays.free_NR.tolist()]
    asked = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes, "pods": 1, **dict(shape.extended)}
    assume(set(asked) <= set(state.resources))
    every = range(len(views))
    passing = {
        NODE_DOWN: {n for n in every if state.arrays.alive_N[n]},
        NOT_ELIGIBLE: {n for n in every if allowed(state.nodes[n], shape)},
        NO_GPU_LEFT: {n for n in every if devices_fit(views[n].lefts, shape.gpu_milli, shape.gpu_count)},
    }
    for r, key in enumerate(state.resources):
        passing[NO_RESOURCE + r] = {n for n in every if enough(asked.get(key, 0), free[n][key])}
    left, emptied_by = set(every), []
    for reason, passed in passing.items():
        left &= passed
        if not left:
            emptied_by.append(reason)
    assume(emptied_by)
    assert narrowing_reason(state.arrays, encode_shapes(state, [shape]), 0) == emptied_by[0]


@pytest.mark.parametrize("rule", DEVICE_RULES)
@given(LEFTS, gpu_requests(), st.floats(0, 1, exclude_max=True))
@checked(200)
def test_devices_equal_the_twin(rule: str, lefts: list[int], request: tuple[int, int], draw: float) -> None:
    milli, count = request
    assume(sum(1 for left in lefts if left >= milli) >= count)
    shape = PodShape(gpu_milli=milli, gpu_count=count)
    found = choose_devices(np.array(lefts), len(lefts), milli, count, DEVICE_RULES.index(rule), draw)
    assert found == mask(pick_devices(shape, lefts, rule, draw))


@given(LEFTS, st.integers(1, 999))
@checked(100)
def test_random_device_rule_is_uniform_over_the_devices_with_room(lefts: list[int], milli: int) -> None:
    room = [d for d, left in enumerate(lefts) if left >= milli]
    assume(room)
    rounds = 10
    draws = [(i + 0.5) / (rounds * len(room)) for i in range(rounds * len(room))]
    rule = DEVICE_RULES.index("random")
    chosen = Counter(choose_devices(np.array(lefts), len(lefts), milli, 1, rule, draw) for draw in draws)
    assert chosen == {1 << d: rounds for d in room}


@pytest.mark.parametrize("rule", DEVICE_RULES)
@pytest.mark.parametrize(
    ("lefts", "milli", "count", "expected"),
    [
        ([300, 500, 1000], 300, 2, 0b011),  # the fullest two
        ([1000, 300, 500, 300], 300, 3, 0b1110),  # each but once
        ([500, 200, 1000, 500], 300, 2, 0b1001),
        ([400, 1000, 700, 1000], 1000, 1, 0b0010),  # whole: the lowest idle ones, whatever is drawn
        ([400, 1000, 1000, 1000], 1000, 2, 0b0110),
        ([1000, 1000], 0, 0, 0),
    ],
)
def test_several_devices_and_whole_ones_do_not_depend_on_the_rule(
    lefts: list[int], milli: int, count: int, expected: int, rule: str
) -> None:
    assert choose_devices(np.array(lefts), len(lefts), milli, count, DEVICE_RULES.index(rule), 0.9) == expected
