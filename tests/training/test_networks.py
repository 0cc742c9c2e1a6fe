"""Networks in torch: any number of nodes, in any order, padded or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from pilotage.policies.architectures import INPUTS
from pilotage.training.networks import NO_CANDIDATE, Critic, GraphCritic, GraphScorer, Scorer, rows_of

SCORERS = [Scorer(depth=0), Scorer(hidden=16, depth=3), GraphScorer(hidden=12, depth=2, heads=3)]
CRITICS = [Critic(depth=0), Critic(hidden=16, depth=2), GraphCritic(hidden=12, depth=2, heads=3)]
NETWORKS = [*SCORERS, *CRITICS]
Clusters = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for network in NETWORKS:
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.4)
    yield
    torch.set_num_threads(before)


def clusters(seed: int, B: int = 3, N: int = 9) -> Clusters:
    """Rows, mask, racks, zones; some nodes are in no rack or no zone."""
    draw = torch.Generator().manual_seed(seed)
    rows_BNI = torch.rand(B, N, INPUTS, generator=draw)
    mask_BN = torch.rand(B, N, generator=draw) < 0.7
    mask_BN[:, 0] = True
    rack_BN, zone_BN = (torch.randint(-1, most, (B, N), generator=draw) for most in (4, 2))
    return rows_BNI, mask_BN, rack_BN, zone_BN


def nodes_of(given: Clusters, nodes: Tensor) -> Clusters:
    rows_BNI, mask_BN, rack_BN, zone_BN = given
    return rows_BNI[:, nodes], mask_BN[:, nodes], rack_BN[:, nodes], zone_BN[:, nodes]


def cluster(given: Clusters, b: int) -> Clusters:
    rows_BNI, mask_BN, rack_BN, zone_BN = given
    return rows_BNI[b : b + 1], mask_BN[b : b + 1], rack_BN[b : b + 1], zone_BN[b : b + 1]


@pytest.mark.parametrize("network", SCORERS)
def test_scores_move_with_their_nodes(network: nn.Module) -> None:
    given = clusters(1)
    order = torch.tensor([4, 8, 0, 2, 7, 1, 3, 6, 5])
    torch.testing.assert_close(network(*nodes_of(given, order)), network(*given)[:, order])


@pytest.mark.parametrize("network", CRITICS)
def test_values_do_not_depend_on_the_order_of_nodes(network: nn.Module) -> None:
    given = clusters(1)
    torch.testing.assert_close(network(*nodes_of(given, torch.arange(8, -1, -1))), network(*given))


@pytest.mark.parametrize("network", NETWORKS)
def test_padding_and_company_have_no_influence(network: nn.Module) -> None:
    """Each cluster alone, without the nodes that are not under the mask, gives what it gives in the batch."""
    given = clusters(2)
    together = network(*given)
    for b in range(len(together)):
        there = given[1][b]
        alone = network(*nodes_of(cluster(given, b), there.nonzero()[:, 0]))[0]
        torch.testing.assert_close(alone, together[b][there] if network in SCORERS else together[b])


@pytest.mark.parametrize("network", SCORERS)
def test_what_is_no_candidate_scores_so_and_teaches_nothing(network: nn.Module) -> None:
    rows_BNI, mask_BN, rack_BN, zone_BN = clusters(3)
    rows_BNI.requires_grad_()
    scores_BN = network(rows_BNI, mask_BN, rack_BN, zone_BN)
    assert (scores_BN[~mask_BN] == NO_CANDIDATE).all()
    assert (scores_BN[mask_BN].abs() < 1e4).all()
    scores_BN.softmax(dim=1)[:, 0].sum().backward()
    assert rows_BNI.grad is not None
    assert (rows_BNI.grad[~mask_BN] == 0).all()
    assert rows_BNI.grad[mask_BN].abs().sum() > 0


@pytest.mark.parametrize("network", NETWORKS)
def test_every_weight_learns(network: nn.Module) -> None:
    network.zero_grad()
    given = clusters(4, B=8, N=30)
    out = network(*given)
    (out[given[1]] if network in SCORERS else out).square().sum().backward()
    idle = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle


@pytest.mark.parametrize("network", NETWORKS)
def test_a_cluster_without_candidates_is_no_accident(network: nn.Module) -> None:
    rows_BNI, mask_BN, rack_BN, zone_BN = clusters(5)
    mask_BN[1] = False
    assert torch.isfinite(network(rows_BNI, mask_BN, rack_BN, zone_BN)).all()


def test_attention_sees_racks() -> None:
    """The same nodes in other racks have other scores, though their rows are the same."""
    network = GraphScorer(hidden=12, depth=2, heads=3)
    rows_BNI, mask_BN, rack_BN, zone_BN = clusters(6)
    mask_BN[:] = True
    moved_BN = rack_BN.flip(1)
    before, after = (network(rows_BNI, mask_BN, racks, zone_BN) for racks in (rack_BN, moved_BN))
    assert (before - after).abs().max() > 1e-4


def test_attention_carries_what_a_neighbour_is_like_across_the_cluster() -> None:
    network = GraphScorer(hidden=12, depth=3, heads=3)  # a cluster's mean takes three steps down to a worker
    rows_BNI, mask_BN, _, _ = clusters(7, B=1)
    mask_BN[:] = True
    rack_BN = torch.arange(9)[None] // 3
    changed_BNI = rows_BNI.clone()
    changed_BNI[0, 8] += 1.0
    before, after = (network(rows, mask_BN, rack_BN, rack_BN // 2) for rows in (rows_BNI, changed_BNI))
    assert ((before - after)[0, :3].abs() > 1e-6).all()  # in another rack of another zone


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="no multiple of heads"):
        GraphScorer(hidden=10, heads=4)


def test_rows_are_the_nodes_inputs_and_then_the_pods() -> None:
    rows = rows_of(torch.arange(12.0).reshape(2, 3, 2), torch.tensor([[-1.0], [-2.0]]))
    assert rows.shape == (2, 3, 3)
    assert rows[1, 2].tolist() == [10.0, 11.0, -2.0]
