"""From torch to a policy without torch: the same scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pilotage.kernels.feasibility import feasible_some
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, PodShape
from pilotage.policies.api import DecisionBatch, WorkloadMix
from pilotage.policies.checking import check_policy
from pilotage.policies.checkpoints import read_checkpoint, write_checkpoint
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.policies.learned import encoded, policy_of
from pilotage.training.export import checkpoint_of, scorer_of
from pilotage.training.networks import GraphScorer, Scorer, rows_of
from pilotage.workloads.topology import labelled
from reference.random_weights import PRICES, random_checkpoint

GIB = 2**30
SHAPES = (
    PodShape(4000, 8 * GIB),
    PodShape(2000, 4 * GIB, gpu_milli=300, gpu_count=1),
    PodShape(8000, 32 * GIB, gpu_milli=1000, gpu_count=2),
    PodShape(500_000, 0),  # fits nowhere
)
NO_MIX = WorkloadMix(SHAPES, np.ones(len(SHAPES), np.int64))


def networks() -> list[Scorer | GraphScorer]:
    return [
        Scorer(depth=0),
        Scorer(hidden=33, depth=1),
        Scorer(hidden=64, depth=3),
        GraphScorer(hidden=32, depth=1, heads=1),
        GraphScorer(hidden=64, depth=3, heads=4),
    ]


@pytest.fixture(params=range(5), ids=["linear", "mlp-1", "mlp-3", "graph-1", "graph-3"])
def scorer(request: pytest.FixtureRequest) -> Scorer | GraphScorer:
    torch.set_num_threads(1)
    torch.manual_seed(request.param)
    made: Scorer | GraphScorer = networks()[request.param]
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.15)
    return made


def decisions(nodes: int, gpus: bool, racks: bool, seed: int = 0) -> DecisionBatch:
    """A cluster of different nodes, partly filled, and one decision for each shape."""
    draw = np.random.default_rng(seed)
    machines = [
        Node(f"n{n}", int(draw.choice([16000, 64000])), 256 * GIB, gpu_count=int(draw.integers(0, 9)) if gpus else 0)
        for n in range(nodes)
    ]
    state = ClusterState(labelled(machines, racks_per_zone=2) if racks else machines)
    for n, node in enumerate(state.nodes):
        state.add(f"cpu-{n}", PodShape(int(draw.integers(0, 15000)), 10 * GIB), n)
        if node.gpu_count:
            state.add(f"gpu-{n}", PodShape(100, GIB, gpu_milli=int(draw.integers(1, 1000)), gpu_count=1), n, 0b1)
    table = encode_shapes(state, SHAPES)
    feasible_BN = np.zeros((len(SHAPES), nodes), np.bool_)
    for s in range(len(SHAPES)):
        feasible_some(state.arrays, table, s, np.arange(nodes), feasible_BN[s])
    node_NF = encode_nodes(state, np.arange(nodes))
    return DecisionBatch(
        pod_BF=table.pod_SF,
        node_BNF=np.repeat(node_NF[None], len(SHAPES), axis=0),
        device_left_BND=np.repeat(state.arrays.device_left_ND[None], len(SHAPES), axis=0),
        feasible_BN=feasible_BN,
    )


def scores_in_torch(scorer: Scorer | GraphScorer, batch: DecisionBatch) -> FloatArray:
    seen = [encoded(batch, b) for b in range(len(batch.pod_BF))]
    rows_BNI = rows_of(torch.tensor(np.stack([node for _, node in seen])), torch.tensor(np.stack([p for p, _ in seen])))
    rack_BN, zone_BN = (torch.tensor(batch.node(column)).long() for column in ("rack", "zone"))
    with torch.no_grad():
        scores: FloatArray = scorer(rows_BNI, torch.tensor(batch.feasible_BN), rack_BN, zone_BN).double().numpy()
    return scores


@pytest.mark.parametrize("racks", [False, True], ids=["no-racks", "racks"])
@pytest.mark.parametrize("gpus", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("nodes", [1, 3, 10, 300])
def test_the_policy_scores_as_torch_does(scorer: Scorer | GraphScorer, nodes: int, gpus: bool, racks: bool) -> None:
    policy = policy_of(checkpoint_of(scorer, "mine@1")).prepare(NO_MIX)
    batch = decisions(nodes, gpus, racks)
    out_BN, device_BN = np.full(batch.feasible_BN.shape, np.nan), np.full(batch.feasible_BN.shape, -1)
    policy.score(batch, out_BN, device_BN)
    candidates = batch.feasible_BN
    assert candidates[0].any()
    assert candidates[1].any() <= gpus
    np.testing.assert_allclose(out_BN[candidates], scores_in_torch(scorer, batch)[candidates], rtol=1e-5, atol=1e-5)
    assert (device_BN == -1).all()


def test_the_policy_keeps_the_contract(scorer: Scorer | GraphScorer) -> None:
    check_policy(policy_of(checkpoint_of(scorer, "mine@1")))


def test_a_network_comes_back_from_its_checkpoint(
    scorer: Scorer | GraphScorer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("runs") / "best"
    write_checkpoint(place, checkpoint_of(scorer, "mine@1"))
    again = scorer_of(read_checkpoint(place))
    batch = decisions(10, gpus=True, racks=True)
    np.testing.assert_array_equal(scores_in_torch(again, batch), scores_in_torch(scorer, batch))


def test_a_checkpoint_is_a_copy() -> None:
    scorer = Scorer(depth=0)
    before = checkpoint_of(scorer, "mine@1").tensors["layers.0.bias"].copy()
    made = checkpoint_of(scorer, "mine@1")
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.add_(1.0)
    np.testing.assert_array_equal(made.tensors["layers.0.bias"], before)


def test_prices_are_no_network() -> None:
    with pytest.raises(InputError, match="is no network"):
        scorer_of(random_checkpoint(PRICES))
