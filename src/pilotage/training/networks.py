"""Networks that score nodes, and their critics.

A scorer sees per node the row of kernels.inputs (the node's numbers, then the pod's) and gives one score per node, with
the same weights for all of them: any number of nodes will do, and their order does not matter. All are called with
`(rows_BNI, mask_BN, rack_BN, zone_BN)` for B clusters padded to N nodes; nodes that are not under the mask (padding, or
no candidates) have no influence, and score NO_CANDIDATE. Names of submodules are names of tensors in checkpoints.
"""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from pilotage.policies.architectures import INPUTS, Architecture
from pilotage.policies.cluster_graph import LEVELS, ClusterGraph, cluster_graph

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # it uses torch.jit.script, which torch calls deprecated
    from torch_geometric.nn import GATv2Conv

NO_CANDIDATE = -1e8  # finite: its softmax is 0, and 0 times it is 0


def rows_of(node_BNI: Tensor, pod_BI: Tensor) -> Tensor:
    """Each node's inputs with those of the pod behind them."""
    B, N, _ = node_BNI.shape
    return torch.cat([node_BNI, pod_BI[:, None].expand(B, N, pod_BI.shape[-1])], dim=-1)


def mean_over(values_BNH: Tensor, mask_BN: Tensor) -> Tensor:
    """Mean over the nodes under the mask; 0 where there is none."""
    count_B1 = mask_BN.sum(dim=1, keepdim=True).clamp(min=1)
    return (values_BNH * mask_BN[..., None]).sum(dim=1) / count_B1


class Scorer(nn.Module):
    """Dense layers on each node's row; depth 0 is linear."""

    def __init__(self, inputs: int = INPUTS, hidden: int = 64, depth: int = 2) -> None:
        super().__init__()
        self.architecture = Architecture("mlp", hidden, depth)
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in pairwise([inputs, *[hidden] * depth, 1]))

    def forward(self, rows_BNI: Tensor, mask_BN: Tensor, rack_BN: Tensor, zone_BN: Tensor) -> Tensor:
        values = rows_BNI
        for layer in self.layers[:-1]:
            values = relu(layer(values))
        scores_BN: Tensor = self.layers[-1](values)[..., 0]
        return scores_BN.masked_fill(~mask_BN, NO_CANDIDATE)


class Critic(nn.Module):
    """One value per cluster: dense layers on each row, then their mean."""

    def __init__(self, inputs: int = INPUTS, hidden: int = 64, depth: int = 2) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * depth]
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in pairwise(widths))
        self.value = nn.Linear(widths[-1], 1)

    def forward(self, rows_BNI: Tensor, mask_BN: Tensor, rack_BN: Tensor, zone_BN: Tensor) -> Tensor:
        values = rows_BNI
        for layer in self.layers:
            values = relu(layer(values))
        value_B: Tensor = self.value(mean_over(values, mask_BN))[:, 0]
        return value_B


class GraphBody(nn.Module):
    """Attention (GATv2) over workers, racks, zones and the whole cluster; gives features of each worker."""

    def __init__(self, inputs: int, hidden: int, depth: int, heads: int) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden {hidden} is no multiple of heads {heads}")
        self.embed = nn.Linear(inputs, hidden)
        self.levels = nn.Parameter(torch.zeros(len(LEVELS), hidden))
        self.attention = nn.ModuleList(
            GATv2Conv(hidden, hidden // heads, heads=heads, add_self_loops=False) for _ in range(depth)
        )

    def forward(self, rows_BNI: Tensor, mask_BN: Tensor, rack_BN: Tensor, zone_BN: Tensor) -> Tensor:
        """Features (W, hidden) of the workers under the mask, in order."""
        graph = cluster_graph(mask_BN.cpu().numpy(), rack_BN.cpu().numpy(), zone_BN.cpu().numpy())
        worker_WH = relu(self.embed(rows_BNI[mask_BN]))
        values_VH = torch.cat([worker_WH, self._above(worker_WH, graph)])
        edges_2E = torch.from_numpy(np.stack([graph.source_E, graph.target_E])).to(rows_BNI.device)
        for layer in self.attention:
            values_VH = relu(values_VH + layer(values_VH, edges_2E))
        return values_VH[: graph.workers]

    def _above(self, worker_WH: Tensor, graph: ClusterGraph) -> Tensor:
        """Racks, zones and clusters begin as the mean of the workers below them, and something of their own."""
        device = worker_WH.device
        above_X = torch.from_numpy(graph.above_LW.ravel()).to(device)
        members_U1 = torch.from_numpy(graph.members_U[:, None]).to(device).clamp(min=1)
        sum_UH = torch.zeros(len(members_U1), worker_WH.shape[1], dtype=worker_WH.dtype, device=device)
        sum_UH = sum_UH.index_add(0, above_X, worker_WH.repeat(len(LEVELS), 1))
        return sum_UH / members_U1 + self.levels[torch.from_numpy(graph.level_U).to(device)]


class GraphScorer(nn.Module):
    """Attention over the cluster graph, then one hidden layer per worker."""

    def __init__(self, inputs: int = INPUTS, hidden: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.architecture = Architecture("graph", hidden, depth, heads)
        self.body = GraphBody(inputs, hidden, depth, heads)
        self.inner = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, rows_BNI: Tensor, mask_BN: Tensor, rack_BN: Tensor, zone_BN: Tensor) -> Tensor:
        score_W = self.score(relu(self.inner(self.body(rows_BNI, mask_BN, rack_BN, zone_BN))))[:, 0]
        nowhere_BN = torch.full(mask_BN.shape, NO_CANDIDATE, dtype=score_W.dtype, device=score_W.device)
        return nowhere_BN.masked_scatter(mask_BN, score_W)


class GraphCritic(nn.Module):
    """One value per cluster: the mean of its workers' features after attention."""

    def __init__(self, inputs: int = INPUTS, hidden: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.body = GraphBody(inputs, hidden, depth, heads)
        self.inner = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, 1)

    def forward(self, rows_BNI: Tensor, mask_BN: Tensor, rack_BN: Tensor, zone_BN: Tensor) -> Tensor:
        features_WH = self.body(rows_BNI, mask_BN, rack_BN, zone_BN)
        empty_BNH = torch.zeros(*mask_BN.shape, features_WH.shape[1], dtype=features_WH.dtype, device=rows_BNI.device)
        features_BNH = empty_BNH.masked_scatter(mask_BN[..., None], features_WH)
        value_B: Tensor = self.value(relu(self.inner(mean_over(features_BNH, mask_BN))))[:, 0]
        return value_B
