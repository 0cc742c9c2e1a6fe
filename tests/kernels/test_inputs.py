"""What learned scorers see, against its slow twin; random actions of environments."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.env_step import random_actions
from pilotage.kernels.features import (
    GANG_IN_RACK,
    LOAD,
    NODE_FEATURES,
    POD_FEATURES,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
    PODS_CAPACITY,
)
from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS, encode_inputs
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.encode import encode_nodes, pod_features
from reference import inputs as twin
from reference.machines import View
from reference.strategies import checked, shapes, used_clusters


def compare(pod_F: FloatArray, node_NF: FloatArray, left_ND: IntArray) -> None:
    pod_I = np.full(len(POD_INPUTS), np.nan, np.float32)
    node_NI = np.full((len(node_NF), len(NODE_INPUTS)), np.nan, np.float32)
    encode_inputs(pod_F, node_NF, left_ND, pod_I, node_NI)
    pod = dict(zip(POD_FEATURES, pod_F.tolist(), strict=True))
    nodes = [dict(zip(NODE_FEATURES, row.tolist(), strict=True)) for row in node_NF]
    assert dict(zip(POD_INPUTS, pod_I.tolist(), strict=True)) == pytest.approx(twin.pod_inputs(pod, nodes), rel=1e-6)
    for n, node in enumerate(nodes):
        found = dict(zip(NODE_INPUTS, node_NI[n].tolist(), strict=True))
        if node["pods_capacity"]:
            lefts = left_ND[n, : int(node["gpu_count"])].tolist()
            assert found == pytest.approx(twin.node_inputs(pod, nodes, n, lefts), rel=1e-6, abs=1e-6)
        else:
            assert set(found.values()) == {0.0}


def rows(state: ClusterState) -> FloatArray:
    node_NF = encode_nodes(state, np.arange(len(state.nodes)))
    node_NF[:, [GANG_IN_RACK, LOAD]] = 0.0
    return node_NF


@given(used_clusters(), shapes(), st.data())
@checked(200)
def test_inputs_equal_the_twin(cluster: tuple[ClusterState, list[View]], shape: PodShape, data: st.DataObject) -> None:
    state, views = cluster
    node_NF, pod_F = rows(state), np.array(pod_features(shape, 0.0), np.float64)
    placed = data.draw(st.integers(0, 3))
    pod_F[POD_GANG_PLACED], pod_F[POD_GANG_LEFT] = placed, data.draw(st.integers(0, 5))
    for n in range(len(views)):
        node_NF[n, LOAD] = data.draw(st.sampled_from([0.0, 0.25, 0.5]))
        node_NF[n, GANG_IN_RACK] = data.draw(st.integers(0, placed))
        if data.draw(st.integers(0, 3)) == 0:
            node_NF[n, PODS_CAPACITY] = 0.0  # no node is there
    compare(pod_F, node_NF, state.arrays.device_left_ND)


@pytest.mark.parametrize("asked", [(0, 0), (300, 1), (300, 2), (1000, 1), (1000, 2)], ids=str)
def test_inputs_of_three_nodes_equal_the_twin(asked: tuple[int, int]) -> None:
    """A full one beside one without GPU and one with parts of devices left; what is used differs everywhere."""
    state = ClusterState(
        [Node("a", 8000, 2**33, 10, 2, "A"), Node("b", 16_000, 2**32), Node("c", 4000, 2**34, 5, 4, "A")]
    )
    state.arrays.free_NR[:, :3] = [[7000, 2**32, 3], [4000, 2**31, 100], [1000, 2**30, 1]]
    state.arrays.device_left_ND[0, :2], state.arrays.device_left_ND[2] = [1000, 400], [300, 1000, 700, 0]
    node_NF, pod_F = rows(state), np.array(pod_features(PodShape(500, 2**29, *asked), 0.0), np.float64)
    node_NF[:, LOAD], node_NF[:, GANG_IN_RACK] = [0.1, 0.2, 0.6], [1, 0, 2]
    pod_F[POD_GANG_PLACED], pod_F[POD_GANG_LEFT] = 3, 2
    compare(pod_F, node_NF, state.arrays.device_left_ND)
    node_NF[1, PODS_CAPACITY] = 0.0
    compare(pod_F, node_NF, state.arrays.device_left_ND)


def test_random_actions_are_allowed_and_equally_likely() -> None:
    mask_BN = np.array([[False, True, False, True, True], [True, False, False, False, False]])
    drawn: Counter[int] = Counter()
    for step in range(3000):
        action_B = np.full(2, -1, np.int64)
        random_actions(mask_BN, 7, step, action_B)
        drawn[int(action_B[0])] += 1
        assert action_B[1] == 0
    assert set(drawn) == {1, 3, 4}
    assert min(drawn.values()) > 900
