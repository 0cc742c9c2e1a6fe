"""The value of leftovers in compiled code against its formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.prices import SCALES
from pilotage.model.cluster import ClusterState
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


@given(
    used_clusters(),
    shapes(),
    st.lists(shapes(), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 50), min_size=4, max_size=4),
    st.integers(0, 10**6),
    st.booleans(),
)
@checked(60)
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
    twin, policy = Twin(parameters, mix), Priced("twin@1", parameters).prepare(mix)
    feasible_N = np.array([takes(view, shape) for view in views])
    out_BN, device_BN = np.full((1, len(views)), np.nan), np.full((1, len(views)), -1, np.int64)
    batch = DecisionBatch(
        np.array([pod_features(shape, 0.0)], np.float64),
        encode_nodes(state, np.arange(len(views)))[None],
        state.arrays.device_left_ND[None],
        feasible_N[None],
    )
    policy.score(batch, out_BN, device_BN)
    assert policy.rules.prices[SCALES + 2] == even
    for n, view in enumerate(views):
        if not feasible_N[n]:
            assert np.isnan(out_BN[0, n])
            continue
        score, device = twin.score(shape, view)
        assert out_BN[0, n] == pytest.approx(score, rel=1e-9, abs=1e-9)
        assert device_BN[0, n] == device
