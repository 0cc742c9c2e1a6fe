"""Learned policies, run without torch: prices and dense networks by compiled code, graph networks by onnxruntime.

Networks look at the whole cluster (their inputs contain means over it), so they are asked afresh for every decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.dense import Dense, score_rows
from pilotage.kernels.features import RACK, ZONE
from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS, Float32Array, encode_inputs
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Policy, Scope, WorkloadMix
from pilotage.policies.architectures import INPUTS
from pilotage.policies.checkpoints import Checkpoint
from pilotage.policies.cluster_graph import cluster_graph
from pilotage.policies.graph_network import GraphNetwork
from pilotage.policies.priced import LAYOUT, Priced
from pilotage.policies.rehearsed import Rehearsed

# What kernels.inputs is computed from.
_FEATURES = FeatureSchema(
    pod=("cpu_milli", "memory_bytes", "gpu_milli", "gpu_count", "gang_placed", "gang_left"),
    node=(
        "cpu_free",
        "cpu_capacity",
        "memory_free",
        "memory_capacity",
        "pods_free",
        "pods_capacity",
        "gpu_free",
        "gpu_count",
        "gpu_idle",
        "gpu_largest",
        "gang_in_rack",
        "load",
    ),
)
_GRAPH_FEATURES = FeatureSchema(_FEATURES.pod, (*_FEATURES.node, "rack", "zone"))


def policy_of(checkpoint: Checkpoint) -> Policy:
    """The policy that a checkpoint describes."""
    if checkpoint.kind == "prices":
        parameters_VP = np.concatenate([checkpoint.tensors[name] for name in LAYOUT], axis=1)
        summary = checkpoint.summary or Priced.summary
        valuations = tuple(Priced(checkpoint.name, parameters, summary) for parameters in parameters_VP)
        return valuations[0] if len(valuations) == 1 else Rehearsed(checkpoint.name, valuations)
    if checkpoint.kind == "window":
        raise InputError(f"{checkpoint.name} divides budgets of synchronous jobs", expected="a policy that places pods")
    return DenseScores(checkpoint) if checkpoint.kind == "mlp" else GraphScores(checkpoint)


def encoded(batch: DecisionBatch, b: int) -> tuple[Float32Array, Float32Array]:
    """What a network sees of decision b: the pod's inputs, and each node's."""
    pod_I = np.empty(len(POD_INPUTS), np.float32)
    node_NI = np.empty((batch.node_BNF.shape[1], len(NODE_INPUTS)), np.float32)
    encode_inputs(
        np.ascontiguousarray(batch.pod_BF[b]),
        np.ascontiguousarray(batch.node_BNF[b]),
        np.ascontiguousarray(batch.device_left_BND[b]),
        pod_I,
        node_NI,
    )
    return pod_I, node_NI


@dataclass(frozen=True)
class NetworkScores:
    """What policies of networks have in common."""

    checkpoint: Checkpoint = field(compare=False, repr=False)
    features: FeatureSchema = _FEATURES
    scope: Scope = "cluster"
    normalise: Normalise = "none"
    rules: None = None  # no part of the compiled episode

    @property
    def name(self) -> str:
        return self.checkpoint.name

    @property
    def summary(self) -> str:
        return self.checkpoint.summary or f"a learned network of kind {self.checkpoint.kind}"

    @property
    def fingerprint(self) -> str:
        return self.checkpoint.fingerprint


@dataclass(frozen=True)
class DenseScores(NetworkScores):
    """Scores by dense layers on each candidate's row."""

    dense: Dense = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dense", dense_of(self.checkpoint))

    def prepare(self, mix: WorkloadMix) -> DenseScores:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        scratch_3H = np.empty((3, int(self.dense.width_L[1:].max())), np.float32)
        for b in range(len(out_BN)):
            pod_I, node_NI = encoded(batch, b)
            score_N = np.zeros(out_BN.shape[1])
            score_rows(self.dense, pod_I, node_NI, np.ascontiguousarray(batch.feasible_BN[b]), scratch_3H, score_N)
            out_BN[b] = score_N


@dataclass(frozen=True)
class GraphScores(NetworkScores):
    """Scores by attention over the graph of the candidates, their racks and zones."""

    features: FeatureSchema = _GRAPH_FEATURES
    network: GraphNetwork = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        network = GraphNetwork(self.checkpoint.architecture, self.checkpoint.tensors)
        object.__setattr__(self, "network", network)

    def __reduce__(self) -> tuple[object, ...]:
        """Sent between processes without its session."""
        return GraphScores, (self.checkpoint,)

    def prepare(self, mix: WorkloadMix) -> GraphScores:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        for b in range(len(out_BN)):
            candidates = np.flatnonzero(batch.feasible_BN[b])
            if not len(candidates):
                continue
            pod_I, node_NI = encoded(batch, b)
            row_WI = np.empty((len(candidates), INPUTS), np.float32)
            row_WI[:, : len(NODE_INPUTS)], row_WI[:, len(NODE_INPUTS) :] = node_NI[candidates], pod_I
            place_2W = batch.node_BNF[b, candidates][:, [RACK, ZONE]].T.astype(np.int64)
            graph = cluster_graph(np.ones((1, len(candidates)), np.bool_), place_2W[:1], place_2W[1:])
            out_BN[b, candidates] = self.network.scores(row_WI, graph)


def dense_of(checkpoint: Checkpoint) -> Dense:
    """The layers as the kernel wants them."""
    layers = [checkpoint.tensors[name] for name in checkpoint.architecture.shapes]  # weight, bias, weight, bias ...
    behind = [part for weight, bias in zip(layers[::2], layers[1::2], strict=True) for part in (bias, weight.T.ravel())]
    widths = [layers[0].shape[1], *(bias.shape[0] for bias in layers[1::2])]
    return Dense(np.array(widths, np.int64), np.concatenate(behind).astype(np.float32))
