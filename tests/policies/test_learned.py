"""Learned policies: what they score, what they need, and what they do in a run."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Policy, Scope, WorkloadMix
from pilotage.policies.architectures import Architecture
from pilotage.policies.checking import check_policy
from pilotage.policies.checkpoints import Checkpoint, write_checkpoint
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.policies.learned import DenseScores, encoded, policy_of
from pilotage.policies.priced import LAYOUT, Priced
from pilotage.policies.registry import find_policy
from pilotage.policies.weighted import WeightedSum
from pilotage.sim.protocols import openb_run
from pilotage.sim.run import Run
from pilotage.sim.run_store import identity_of
from pilotage.workloads.generate import Mix, Times, openb_like_nodes, openb_like_pods
from pilotage.workloads.topology import labelled
from pilotage.workloads.trace import Trace
from reference import dense as twin
from reference.random_weights import GRAPH, KINDS, MLP, PRICES, random_checkpoint
from reference.uncompiled import Uncompiled


@pytest.mark.parametrize("architecture", KINDS)
def test_every_kind_keeps_the_contract(architecture: Architecture) -> None:
    policy = policy_of(random_checkpoint(architecture))
    check_policy(policy)
    assert policy.name == f"random-{architecture.kind}@1"


def test_prices_are_the_parameters_by_name() -> None:
    checkpoint = random_checkpoint(PRICES)
    policy = policy_of(checkpoint)
    assert isinstance(policy, Priced)
    assert policy.summary == checkpoint.summary
    given = np.concatenate([checkpoint.tensors[name][0] for name in LAYOUT])
    np.testing.assert_array_equal(policy.parameters, given)


def identical_nodes(count: int) -> DecisionBatch:
    state = ClusterState([Node(f"n{n}", 64000, 2**38) for n in range(count)])
    table = encode_shapes(state, [PodShape(1000, 2**31)])
    return DecisionBatch(
        table.pod_SF,
        encode_nodes(state, np.arange(count))[None],
        state.arrays.device_left_ND[None],
        np.ones((1, count), np.bool_),
    )


@pytest.mark.parametrize("count", [2, 7, 100])
def test_equal_nodes_have_equal_scores_so_that_the_order_of_nodes_decides(count: int) -> None:
    out_BN, device_BN = np.zeros((1, count)), np.full((1, count), -1)
    policy_of(random_checkpoint(MLP)).score(identical_nodes(count), out_BN, device_BN)
    assert len(np.unique(out_BN)) == 1
    policy_of(random_checkpoint(GRAPH)).score(identical_nodes(count), out_BN, device_BN)
    assert np.ptp(out_BN) < 1e-5


# Without torch, and without what graphs need


def test_learned_policies_run_without_torch(tmp_path: Path) -> None:
    for architecture in KINDS:
        write_checkpoint(tmp_path / architecture.kind / str(architecture.depth), random_checkpoint(architecture))
    program = """
import sys
sys.modules["torch"] = None  # an import of it fails
from pathlib import Path
from pilotage.policies.checking import check_policy
from pilotage.policies.registry import find_policy
for path in sorted(Path(sys.argv[1]).glob("*/*")):
    check_policy(find_policy(str(path)))
    print(path.parent.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["graph", "mlp", "mlp", "prices"]


@pytest.mark.parametrize("module", ["onnx", "onnxruntime"])
def test_a_missing_extra_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"expected pip install 'pilotage\[graph\]'"):
        policy_of(random_checkpoint(GRAPH))
    assert policy_of(random_checkpoint(MLP)).name == "random-mlp@1"


# Runs


@cache
def small_trace() -> Trace:
    pods = openb_like_pods(250, seed=3, mix=Mix(model_named=0.3), times=Times(nodes_scale=0.03))
    return Trace.of("small", labelled(openb_like_nodes(0.03), racks_per_zone=3), pods)


@dataclass(frozen=True)
class PlainDense:
    """The same network, added up in plain Python."""

    checkpoint: Checkpoint
    name: str = "plain-dense@1"
    features: FeatureSchema = DenseScores.features
    scope: Scope = "cluster"
    normalise: Normalise = "none"

    def prepare(self, mix: WorkloadMix) -> PlainDense:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        tensors = [self.checkpoint.tensors[name].tolist() for name in self.checkpoint.architecture.shapes]
        layers = list(zip(tensors[::2], tensors[1::2], strict=True))
        pod_I, node_NI = encoded(batch, 0)
        rows = {n: (*node_NI[n].tolist(), *pod_I.tolist()) for n in np.flatnonzero(batch.feasible_BN[0])}
        known = {row: twin.score(layers, row) for row in set(rows.values())}
        for n, row in rows.items():
            out_BN[0, n] = known[row]


def decided(policy: Policy) -> Run:
    run = openb_run(small_trace(), policy, 7, 1.3)
    run.advance()
    return run


def assert_same_decisions(one: Policy, other: Policy) -> Run:
    ours, theirs = decided(one), decided(other)
    np.testing.assert_array_equal(ours.scene.progress.node_P, theirs.scene.progress.node_P)
    np.testing.assert_array_equal(ours.scene.progress.devices_P, theirs.scene.progress.devices_P)
    return ours


def test_a_run_goes_as_with_the_network_added_up_in_plain_python() -> None:
    checkpoint = random_checkpoint(Architecture("mlp", hidden=5, depth=1))
    run = assert_same_decisions(policy_of(checkpoint), PlainDense(checkpoint))
    assert (run.scene.progress.node_P != decided(find_policy("first-fit")).scene.progress.node_P).any()


@pytest.mark.parametrize("architecture", KINDS)
def test_a_policy_sent_to_another_process_decides_the_same(architecture: Architecture) -> None:
    policy = policy_of(random_checkpoint(architecture))
    assert_same_decisions(policy, pickle.loads(pickle.dumps(policy)))  # noqa: S301


@pytest.mark.parametrize("architecture", KINDS)
def test_a_learned_part_of_a_sum_weighs_in(architecture: Architecture) -> None:
    learned = policy_of(random_checkpoint(architecture))
    assert_same_decisions(WeightedSum((learned, find_policy("first-fit")), (3.0, 1.0)), Uncompiled(learned))


def test_two_sets_of_prices_in_one_sum_are_scored_apart() -> None:
    """Compiled code has one table of prices: such a sum is called instead, and comes to what its parts say."""
    one, other = (policy_of(random_checkpoint(PRICES, seed, f"prices-{seed}@1")) for seed in (1, 2))
    both = WeightedSum((one, other), (2.0, 1.0))
    assert WeightedSum((one, find_policy("fgd")), (2.0, 1.0)).rules is not None
    assert both.rules is None
    called = WeightedSum((Uncompiled(one), Uncompiled(other)), (2.0, 1.0))
    run = assert_same_decisions(both, called)
    assert (run.scene.progress.node_P != decided(one).scene.progress.node_P).any()
    assert (run.scene.progress.node_P != decided(other).scene.progress.node_P).any()


@pytest.mark.parametrize("priced_first", [True, False])
def test_fgd_beside_prices_knows_its_typical_pods(priced_first: bool) -> None:
    """Compiled code has one table of typical pods: that of the part which uses it, wherever it stands."""
    priced, fgd = policy_of(random_checkpoint(PRICES)), find_policy("fgd")
    parts, weights = ((priced, fgd), (1.0, 5.0)) if priced_first else ((fgd, priced), (5.0, 1.0))
    alone = (Uncompiled(part) for part in parts)
    assert_same_decisions(WeightedSum(parts, weights), WeightedSum(tuple(alone), weights))


@pytest.mark.parametrize("architecture", KINDS)
def test_stored_runs_know_the_weights(architecture: Architecture) -> None:
    """A policy trained anew under its old name is another policy."""
    first, same, second = (identity_of(policy_of(random_checkpoint(architecture, seed))) for seed in (1, 1, 2))
    assert first == same != second


def test_inputs_come_from_the_declared_columns() -> None:
    """Nothing but what the features name changes what a network sees."""
    from pilotage.kernels.features import NODE_FEATURES, POD_FEATURES

    batch = identical_nodes(3)
    draw = np.random.default_rng(0)
    pod_BF, node_BNF = draw.integers(1, 50, (1, len(POD_FEATURES))), draw.integers(1, 50, (1, 3, len(NODE_FEATURES)))
    seen = DenseScores.features
    other_pod, other_node = pod_BF.astype(np.float64), node_BNF.astype(np.float64)
    before = encoded(DecisionBatch(other_pod.copy(), other_node.copy(), batch.device_left_BND, batch.feasible_BN), 0)
    other_pod[:, [n not in seen.pod for n in POD_FEATURES]] += 1.0
    other_node[:, :, [n not in seen.node for n in NODE_FEATURES]] += 1.0
    after = encoded(DecisionBatch(other_pod, other_node, batch.device_left_BND, batch.feasible_BN), 0)
    for one, two, width in zip(before, after, (len(POD_INPUTS), len(NODE_INPUTS)), strict=True):
        assert one.shape[-1] == width
        np.testing.assert_array_equal(one, two)
