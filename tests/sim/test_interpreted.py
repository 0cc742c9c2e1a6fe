"""Policies in plain Python: asked no more than necessary, and held to their contract."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.cluster import Node
from pilotage.model.errors import PolicyError
from pilotage.model.workload import FloatArray, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Scope, WorkloadMix
from pilotage.sim.run import Run

NODES = [Node(f"n{i}", 4000, 100, gpu_count=2) for i in range(5)]


class Watching:
    """Remembers how many nodes it was asked about each time."""

    name = "watching@1"
    features = FeatureSchema()
    normalise: Normalise = "none"

    def __init__(self, scope: Scope) -> None:
        self.scope: Scope = scope
        self.asked: list[int] = []

    def prepare(self, mix: WorkloadMix) -> Watching:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        self.asked.append(batch.feasible_BN.shape[1])
        out_BN[:] = 0


def run_of(policy: Watching, *shapes: PodShape) -> Run:
    run = Run(NODES, Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(shapes)), policy)
    run.advance()
    return run


def test_a_policy_of_scope_node_is_asked_again_only_about_changed_nodes() -> None:
    small, other = PodShape(1000, 1), PodShape(2000, 1)
    policy = Watching("node")
    run_of(policy, small, small, small, other, small)
    assert policy.asked == [5, 1, 1, 5, 2]  # the last one: where the third and the fourth pod went


def test_a_policy_of_scope_cluster_is_asked_about_all_nodes_every_time() -> None:
    policy = Watching("cluster")
    run_of(policy, *[PodShape(1000, 1)] * 4)
    assert policy.asked == [5] * 4


def test_equal_scores_go_to_the_first_node_until_it_is_full() -> None:
    run = run_of(Watching("node"), *[PodShape(2000, 1)] * 5)
    assert run.scene.progress.node_P.tolist() == [0, 0, 1, 1, 2]


class Cheating(Watching):
    """Declares every node a candidate."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        batch.feasible_BN[:] = True
        out_BN[:] = 0


def test_a_policy_cannot_put_a_pod_where_it_does_not_fit() -> None:
    policy = Cheating("node")
    run = Run([NODES[0]], Workload.of(Pod(f"p{i}", PodShape(4000, 1)) for i in range(3)), policy)
    with pytest.raises(PolicyError):
        run.advance()
    assert (run.state.arrays.free_NR >= 0).all()


class Forging(Watching):
    """Makes the pod larger in its features."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        batch.pod_BF[:, 0] += 1000
        out_BN[:] = 0


def test_a_policy_cannot_change_what_others_see() -> None:
    run = Run(NODES, Workload.of(Pod(f"p{i}", PodShape(1000, 1)) for i in range(3)), Forging("node"))
    before = run.scene.shapes.pod_SF[:, 0].copy()
    with pytest.raises(PolicyError):
        run.advance()
    np.testing.assert_array_equal(run.scene.shapes.pod_SF[:, 0], before)


class Naming(Watching):
    """Names the second device."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        device_BN[:] = 1


def test_the_device_a_policy_names_is_used() -> None:
    run = run_of(Naming("node"), PodShape(1, 1, 600, 1), PodShape(1, 1, 300, 1))
    assert run.scene.progress.devices_P.tolist() == [0b10, 0b10]


def test_a_device_without_room_is_an_error_with_the_policys_name() -> None:
    with pytest.raises(PolicyError, match="watching@1: device 1 has no room for 600 milli"):
        run_of(Naming("node"), PodShape(1, 1, 600, 1), PodShape(1, 1, 600, 1))
