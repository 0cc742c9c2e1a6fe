"""`check_policy`: whether a policy keeps the contract. Call it in the tests of your own policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.features import POD_DRAW
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import PilotageError, PolicyError
from pilotage.model.workload import FloatArray, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, Policy, WorkloadMix
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.policies.registry import checked_instance

_GIB = 2**30


def check_policy(policy: Policy) -> None:
    """Raises PolicyError with every broken rule; returns nothing when there is none."""
    checked_instance(policy, "policy")
    problems = list(dict.fromkeys(_problems(policy)))
    if problems:
        raise PolicyError(f"{policy.name}: " + "; ".join(problems))


def _problems(policy: Policy) -> Iterator[str]:
    for batch, mix in _situations():
        try:
            yield from _broken_rules(policy.prepare(mix), batch)
        except PilotageError as error:
            yield str(error)
        except Exception as error:
            yield f"raises {type(error).__name__}: {error}"


def _broken_rules(policy: Policy, batch: DecisionBatch) -> Iterator[str]:
    before = [array.copy() for array in _arrays(batch)]
    score_BN, device_BN = _score(policy, batch)
    if any(not np.array_equal(a, b) for a, b in zip(before, _arrays(batch), strict=True)):
        yield "writes into its inputs"
        return
    feasible = batch.feasible_BN
    if not np.isfinite(score_BN[feasible]).all():
        yield "leaves a candidate without a finite score"
        return
    yield from _wrong_devices(batch, device_BN)
    again, _ = _score(policy, batch)
    if not np.array_equal(score_BN[feasible], again[feasible]):
        yield "gives other scores for the same question"
    for b in range(len(feasible)):
        alone, _ = _score(policy, _part(batch, [b], range(feasible.shape[1])))
        if not np.array_equal(alone[0, feasible[b]], score_BN[b, feasible[b]]):
            yield "mixes up the decisions of a batch"
    order = np.arange(feasible.shape[1])[::-1]
    turned, _ = _score(policy, _part(batch, range(len(feasible)), order))
    if not _alike(turned[:, ::-1][feasible], score_BN[feasible], exact=policy.scope == "node"):
        yield "depends on the order of nodes"
    if policy.scope == "node":
        for n in range(feasible.shape[1]):
            alone, _ = _score(policy, _part(batch, range(len(feasible)), [n]))
            rows = feasible[:, n]
            if not np.array_equal(alone[rows, 0], score_BN[rows, n]):
                yield "declares scope 'node' but its score depends on other nodes"
                break


def _alike(one: FloatArray, other: FloatArray, *, exact: bool) -> bool:
    """Equal; where scores contain sums over the nodes, up to what the order of single-precision additions changes."""
    tolerance = 0.0 if exact else 1e-5
    return np.allclose(one, other, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(other).max(initial=0.0))))


def _wrong_devices(batch: DecisionBatch, device_BN: IntArray) -> Iterator[str]:
    for b, n in np.argwhere((device_BN >= 0) & batch.feasible_BN):
        milli = batch.pod("gpu_milli")[b, 0]
        left_D = batch.device_left_BND[b, n]
        shares = batch.pod("gpu_count")[b, 0] == 1 and milli < 1000
        if shares and (device_BN[b, n] >= len(left_D) or left_D[device_BN[b, n]] < milli):
            yield "names a device without room for the pod"
            return


def _score(policy: Policy, batch: DecisionBatch) -> tuple[FloatArray, IntArray]:
    out_BN, device_BN = np.full(batch.feasible_BN.shape, np.nan), np.full(batch.feasible_BN.shape, -1, np.int64)
    policy.score(batch, out_BN, device_BN)
    if device_BN.dtype != np.int64 or out_BN.shape != batch.feasible_BN.shape:
        raise PolicyError("replaces the arrays it is given instead of writing into them")
    return out_BN, device_BN


def _arrays(batch: DecisionBatch) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]:
    return batch.pod_BF, batch.node_BNF, batch.device_left_BND, batch.feasible_BN


def _part(batch: DecisionBatch, decisions: object, nodes: object) -> DecisionBatch:
    rows, columns = np.array(decisions), np.array(nodes)
    return DecisionBatch(
        batch.pod_BF[rows],
        np.ascontiguousarray(batch.node_BNF[rows][:, columns]),
        np.ascontiguousarray(batch.device_left_BND[rows][:, columns]),
        np.ascontiguousarray(batch.feasible_BN[rows][:, columns]),
    )


def _situations() -> Iterator[tuple[DecisionBatch, WorkloadMix]]:
    """Small clusters, partly filled: with GPUs, without, a single node, and one where nothing fits."""
    gpu = [
        Node("a", 32000, 128 * _GIB, gpu_count=4, gpu_model="A"),
        Node("b", 96000, 512 * _GIB, gpu_count=8, gpu_model="B"),
        Node("c", 8000, 32 * _GIB),
        Node("d", 64000, 256 * _GIB, gpu_count=1, gpu_model="A"),
    ]
    plain = [Node(f"n{i}", 64000, 256 * _GIB) for i in range(5)]
    shapes = [
        PodShape(4000, 8 * _GIB),
        PodShape(2000, 4 * _GIB, gpu_milli=300, gpu_count=1),
        PodShape(8000, 32 * _GIB, gpu_milli=1000, gpu_count=1),
        PodShape(16000, 64 * _GIB, gpu_milli=1000, gpu_count=2, gpu_models="A|B"),
        PodShape(0, 0),
    ]
    for nodes in (gpu, plain, gpu[:1], [replace(gpu[2], cpu_milli=1, pods=0)]):
        yield _situation(nodes, shapes)


def _situation(nodes: list[Node], shapes: list[PodShape]) -> tuple[DecisionBatch, WorkloadMix]:
    state = ClusterState(nodes)
    for n, node in enumerate(nodes):
        if node.pods > 0:
            state.add(f"filler-{n}", PodShape(1000 * n, _GIB), n)
        if node.gpu_count > 1:
            state.add(f"share-{n}", PodShape(1000, _GIB, gpu_milli=600, gpu_count=1), n, devices=0b1)
    table = encode_shapes(state, shapes)
    table.pod_SF[:, POD_DRAW] = np.linspace(0.1, 0.9, len(shapes))
    node_NF = encode_nodes(state, np.arange(len(nodes)))
    feasible_BN = np.zeros((len(shapes), len(nodes)), np.bool_)
    for s in range(len(shapes)):
        feasible_some(state.arrays, table, s, np.arange(len(nodes)), feasible_BN[s])
    workload = Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(shapes))
    devices = state.arrays.device_left_ND
    batch = DecisionBatch(
        pod_BF=table.pod_SF,
        node_BNF=np.repeat(node_NF[None], len(shapes), axis=0),
        device_left_BND=np.repeat(devices[None], len(shapes), axis=0),
        feasible_BN=feasible_BN,
    )
    return batch, WorkloadMix.of(workload, state.models, devices.shape[1])
