"""The value of leftovers in compiled code against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.prices import SCALES
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import IntArray, PodShape
from pilotage.policies.api import ClusterSize, DecisionBatch, WorkloadMix
from pilotage.policies.encode import encode_nodes, pod_features
from pilotage.policies.priced import PARAMETERS, Priced, parts_of
from reference.machines import View, devices_fit
from reference.prices import Twin
from reference.strategies import checked, shapes, used_clusters


def mix_of(state: ClusterState, found: list[PodShape], counts: list[int]) -> WorkloadMix:
    count_S: IntArray = np.array(counts[: len(found)], np.int64)
    devices = state.arrays.device_left_ND.shape[1]
    return WorkloadMix(tuple(found), count_S, state.models, devices, cluster=ClusterSize.of(state))


def takes(view: View, shape: PodShape) -> bool:
    """Scores are only promised where the pod fits."""
    enough = shape.cpu_milli <= view.cpu_free and shape.memory_bytes <= view.memory_free
    return enough and devices_fit(view.lefts, shape.gpu_milli, shape.gpu_count)


def test_a_node_below_zero_is_worth_what_an_empty_one_is() -> None:
    """Others may have overcommitted it; pods that ask for nothing of what is short still fit."""
    state = ClusterState([Node("n", 8000, 2**33, gpu_count=1, gpu_model="A")])
    shape = PodShape(0, 0, 990, 1)
    usual = mix_of(state, [PodShape(4000, 2**30, 500, 1)], [5])
    policy = Priced("any@1", np.random.default_rng(0).normal(size=PARAMETERS)).prepare(usual)
    scores = []
    for cpu, memory in ((0, 0), (-1, -1), (-5_000_000, -(2**45))):
        state.arrays.free_NR[0, :2] = cpu, memory
        out_BN, device_BN = np.full((1, 1), np.nan), np.full((1, 1), -1, np.int64)
        batch = DecisionBatch(
            np.array([pod_features(shape)]),
            encode_nodes(state, np.arange(1))[None],
            state.arrays.device_left_ND[None],
            np.array([[True]]),
        )
        policy.score(batch, out_BN, device_BN)
        scores.append(out_BN[0, 0])
    assert np.isfinite(scores).all()
    assert abs(scores[1] - scores[0]) < 0.1  # the linear part goes on by a hair


@pytest.mark.parametrize("lefts", [[1000, 1000, 1000, 1000], [1000, 1000, 400, 700], [400, 1000, 1000, 400]])
@pytest.mark.parametrize("cpu_free", [8000, 5000])
@pytest.mark.parametrize("asked", [(0, 0), (300, 1), (300, 2), (1000, 1), (1000, 2)], ids=str)
def test_idle_and_used_devices_count_as_the_twin_says(lefts: list[int], cpu_free: int, asked: tuple[int, int]) -> None:
    state = ClusterState([Node("n", 8000, 2**33, gpu_count=4, gpu_model="A")])
    state.arrays.free_NR[0, :2] = cpu_free, 2**32
    state.arrays.device_left_ND[0] = lefts
    view, shape = View(8000, 2**33, cpu_free, 2**32, lefts, "A"), PodShape(1000, 2**30, *asked)
    mix = mix_of(state, [PodShape(4000, 2**30, 500, 1)], [5])
    parameters = np.random.default_rng(1).normal(size=PARAMETERS)
    compare(Twin(parameters, mix), Priced("twin@1", parameters).prepare(mix), state, [view], shape)


@given(
    used_clusters(),
    shapes(),
    st.lists(shapes(), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
    st.integers(0, 10**6),
    st.booleans(),
)
@checked(240)
def test_score_and_device_equal_the_twin(
    cluster: tuple[ClusterState, list[View]],
    shape: PodShape,
    others: list[PodShape],
    counts: list[int],
    seed: int,
    even: bool,
) -> None:
    """Not `even`: h and k are nothing, which kernels take a shorter way for."""
    state, views = cluster
    mix = mix_of(state, others, counts)
    parameters = np.random.default_rng(seed).normal(size=PARAMETERS)
    if not even:
        for name in ("cpu_share", "memory_share"):
            parts_of(parameters)[name][:] = 0.0
    policy = Priced("twin@1", parameters).prepare(mix)
    assert policy.rules.prices[SCALES + 2] == even
    compare(Twin(parameters, mix), policy, state, views, shape)


def compare(twin: Twin, policy: Priced, state: ClusterState, views: list[View], shape: PodShape) -> None:
    feasible_N = np.array([takes(view, shape) for view in views])
    out_BN, device_BN = np.full((1, len(views)), np.nan), np.full((1, len(views)), -1, np.int64)
    batch = DecisionBatch(
        np.array([pod_features(shape, 0.0)], np.float64),
        encode_nodes(state, np.arange(len(views)))[None],
        state.arrays.device_left_ND[None],
        feasible_N[None],
    )
    policy.score(batch, out_BN, device_BN)
    for n, view in enumerate(views):
        if not feasible_N[n]:
            assert np.isnan(out_BN[0, n])
            continue
        score, device = twin.score(shape, view)
        assert out_BN[0, n] == pytest.approx(score, rel=1e-9, abs=1e-9)
        assert device_BN[0, n] == device
