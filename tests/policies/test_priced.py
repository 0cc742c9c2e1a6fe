"""Policies that price leftovers, on clusters that changed since they were prepared."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.api import ClusterSize, DecisionBatch, WorkloadMix
from pilotage.policies.encode import encode_nodes, pod_features
from pilotage.policies.priced import PARAMETERS, Priced
from pilotage.sim.run import Run, RunSettings
from reference.uncompiled import Uncompiled

SHAPES = (
    PodShape(1000, 10, 300, 1),
    PodShape(1000, 10, 1000, 1),
    PodShape(2000, 20, 1000, 2, gpu_models="A"),
    PodShape(500, 10),
)


def scores(policy: Priced, state: ClusterState, shape: PodShape) -> list[float]:
    nodes = len(state.nodes)
    out_BN, device_BN = np.full((1, nodes), np.nan), np.full((1, nodes), -1, np.int64)
    batch = DecisionBatch(
        np.array([pod_features(shape, 0.0)], np.float64),
        encode_nodes(state, np.arange(nodes))[None],
        state.arrays.device_left_ND[None],
        np.ones((1, nodes), np.bool_),
    )
    policy.score(batch, out_BN, device_BN)
    return [float(score) for score in out_BN[0]]


def test_nodes_with_more_devices_and_other_models_than_were_known() -> None:
    """They are scored as nodes without a model, with the most devices that were known."""
    known = ClusterState([Node("small", 8000, 100, 110, 2, "A")])
    mix = WorkloadMix(SHAPES, np.array([3, 2, 1, 4]), known.models, 2, cluster=ClusterSize.of(known))
    policy = Priced("p@1", np.random.default_rng(0).normal(size=PARAMETERS)).prepare(mix)
    grown = ClusterState(
        [Node("a", 8000, 100, 110, 2, "A"), Node("b", 64000, 900, 110, 16, "B"), Node("c", 8000, 100, 110, 2, "C")]
    )
    for shape in SHAPES:
        found = scores(policy, grown, shape)
        assert np.isfinite(found).all()
        assert found[0] == pytest.approx(scores(policy, known, shape)[0]), "the known node as before"


def test_a_compiled_run_gives_each_share_the_device_that_its_score_is_for() -> None:
    nodes = [Node(f"n{i}", 64_000, 10**9, 110, 4, "A") for i in range(3)]
    asked = np.random.default_rng(3).integers(1, 10, 40) * 100
    workload = Workload.of(Pod(f"p{i}", PodShape(500, 10, int(milli), 1)) for i, milli in enumerate(asked))
    policy = Priced("p@1", np.random.default_rng(0).normal(size=PARAMETERS))
    compiled, plain = (Run(nodes, workload, one, RunSettings()) for one in (policy, Uncompiled(policy)))
    for run in (compiled, plain):
        run.advance()
    assert compiled.rules is not None
    assert plain.rules is None
    for name in ("node_P", "devices_P"):
        assert (getattr(compiled.scene.progress, name) == getattr(plain.scene.progress, name)).all(), name
    assert len(set(compiled.scene.progress.devices_P.tolist())) >= 4
