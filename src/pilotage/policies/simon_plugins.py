"""Score plugins of simon as policies.

A plugin with a compiled rule is that rule. The others are here in numpy: same scores, slower runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import tanh
from typing import Literal, get_args

import numpy as np

from pilotage.kernels.features import DRAW_STEPS, random_unit
from pilotage.kernels.scoring import MAX_CPU, MAX_GPU
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray
from pilotage.policies.api import (
    DecisionBatch,
    DeviceRule,
    FeatureSchema,
    Normalise,
    Policy,
    Scope,
    WorkloadMix,
    ask,
    prepared,
)
from pilotage.policies.device_choice import DeviceChoice, ScoresOf
from pilotage.policies.registry import registered
from pilotage.policies.weighted import WeightedSum

DimExt = Literal["merge", "share", "divide", "extend"]
Norm = Literal["node", "pod", "max"]
DIM_EXTS, NORMS = get_args(DimExt), get_args(Norm)

_COMPILED = {
    "FGDScore": "fgd@1",
    "BestFitScore": "best-fit@1",
    "GpuPackingScore": "gpu-packing@1",
    "GpuClusteringScore": "gpu-clustering@1",
    "NodeResourcesLeastAllocated": "least-allocated@1",
}
SCORE_PLUGINS = (*_COMPILED, "DotProductScore", "RandomScore", "Simon", "NodeResourcesBalancedAllocation")

_DEVICE_RULES: dict[str, DeviceRule] = {"best": "best", "worst": "worst", "random": "random", "FGDScore": "fgd"}
DOT_PRODUCT = "DotProductScore"
GPU_SEL_METHODS = (*_DEVICE_RULES, DOT_PRODUCT)


@dataclass(frozen=True)
class _Plain:
    """What policies of this module have in common: they learn nothing from the workload."""

    def prepare(self, mix: WorkloadMix) -> Policy:
        return self  # type: ignore[return-value]  # those that derive are policies


@dataclass(frozen=True)
class DotProduct(_Plain):
    """DotProductScore in its general form: the smaller the product of what is free and what is asked for, the better.

    A node offers one or several vectors (CPU, GPU ...) to match, depending on `dim_ext`; the best of them is its score,
    and the device that it stands for is where a share of a GPU would go.
    """

    dim_ext: DimExt = "merge"
    norm: Norm = "max"

    features = FeatureSchema(
        pod=("cpu_milli", "gpu_milli", "gpu_count"), node=("cpu_free", "cpu_capacity", "gpu_count")
    )
    scope: Scope = "node"
    normalise: Normalise = "none"

    @property
    def name(self) -> str:
        return f"simon-dot-product-{self.dim_ext}-{self.norm}@1"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        cpu_B = batch.pod("cpu_milli")[:, 0]
        gpu_B = (batch.pod("gpu_milli") * batch.pod("gpu_count"))[:, 0]
        free_BN, capacity_BN, count_BN = batch.node("cpu_free"), batch.node("cpu_capacity"), batch.node("gpu_count")
        for b, n in np.argwhere(batch.feasible_BN).tolist():
            left = batch.device_left_BND[b, n, : int(count_BN[b, n])].tolist()
            asked = float(cpu_B[b]), float(gpu_B[b])
            out_BN[b, n], device_BN[b, n] = self.best_match(float(free_BN[b, n]), float(capacity_BN[b, n]), left, asked)

    def best_match(self, cpu: float, capacity: float, left: list[int], asked: tuple[float, float]) -> tuple[float, int]:
        """Score of a node and the device it is for (-1: none in particular)."""
        scales = {"node": (capacity, float(GPU_MILLI * len(left))), "pod": asked, "max": (MAX_CPU, MAX_GPU)}
        cpu_scale, gpu_scale = scales[self.norm]
        best, device = None, -1
        for node, pod, candidate in self._matches(cpu, left, asked):
            product = _over(node[0], cpu_scale) * _over(pod[0], cpu_scale)
            for offered, wanted in zip(node[1:], pod[1:], strict=True):
                product += _over(offered, gpu_scale) * _over(wanted, gpu_scale)
            mean = product / len(pod)
            value = 1.0 - (tanh(mean / 10.0) if self.norm == "pod" else mean)
            if best is None or value > best:
                best, device = value, candidate
        return (float(int(100.0 * best)), device) if best is not None else (0.0, -1)

    def _matches(
        self, cpu: float, left: list[int], asked: tuple[float, float]
    ) -> Iterator[tuple[list[float], list[float], int]]:
        """Vectors of the node, of the pod, and the device meant. Idle devices count as one, the lowest first."""
        asked_cpu, asked_gpu = asked
        if cpu < asked_cpu:
            return
        idle = [d for d, milli in enumerate(left) if milli == GPU_MILLI]
        first_idle, all_idle = (idle[0] if idle else -1), float(GPU_MILLI * len(idle))
        used = [(d, float(milli)) for d, milli in enumerate(left) if milli < GPU_MILLI]
        if self.dim_ext == "merge":
            yield [cpu, float(sum(left))], [asked_cpu, asked_gpu], -1
        elif self.dim_ext == "extend":
            entries = [(d, milli) for d, milli in used if milli > 0] + ([(first_idle, all_idle)] if idle else [])
            for position, (device, milli) in enumerate(entries):
                if milli >= asked_gpu:
                    pod = [asked_cpu, *(asked_gpu if i == position else 0.0 for i in range(len(entries)))]
                    yield [cpu, *(amount for _, amount in entries)], pod, device
        else:
            fitting = [(d, milli) for d, milli in used if asked_gpu <= milli] if asked_gpu < GPU_MILLI else []
            if asked_gpu <= all_idle:
                fitting.append((first_idle, all_idle))
            for device, milli in fitting:
                part = _over(milli, float(sum(left))) if self.dim_ext == "divide" else 1.0
                yield [cpu * part, milli], [asked_cpu, asked_gpu], device


def _over(amount: float, scale: float) -> float:
    return amount / scale if scale else 0.0


PUBLISHED = DotProduct()  # the settings of the published experiments: a compiled rule


@dataclass(frozen=True)
class DotProductDevices(ScoresOf):
    """Scores of `policy`; a share of a GPU goes to the device that matches best by `matching`."""

    matching: DotProduct

    @property
    def features(self) -> FeatureSchema:
        own, other = self.policy.features, self.matching.features
        return FeatureSchema(
            pod=tuple(dict.fromkeys(own.pod + other.pod)), node=tuple(dict.fromkeys(own.node + other.node))
        )

    def prepare(self, mix: WorkloadMix) -> Policy:
        return replace(self, policy=prepared(self.policy, mix))

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        ask(self.policy, batch, out_BN, device_BN)
        self.matching.score(batch, np.empty_like(out_BN), device_BN)


@dataclass(frozen=True)
class SimonShare(_Plain):
    """The score plugin Simon: the largest part that the pod takes of what a node offers, whatever is free there."""

    name: str = "simon-share@1"
    features = FeatureSchema(pod=("cpu_milli", "memory_bytes"), node=("cpu_capacity", "memory_capacity"))
    scope: Scope = "node"
    normalise: Normalise = "minmax"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        cpu_BN = _share(batch.pod("cpu_milli"), batch.node("cpu_capacity"))
        memory_BN = _share(batch.pod("memory_bytes"), batch.node("memory_capacity"))
        nothing_B1 = (batch.pod("cpu_milli") == 0) & (batch.pod("memory_bytes") == 0)
        out_BN[:] = np.where(nothing_B1, 100.0, np.floor(100.0 * np.maximum(cpu_BN, memory_BN) + 0.5))


def _share(asked_B1: FloatArray, offered_BN: FloatArray) -> FloatArray:
    rest_BN = offered_BN - asked_B1
    all_of_it_BN = np.where(np.broadcast_to(asked_B1 > 0, rest_BN.shape), 1.0, 0.0)
    share_BN: FloatArray = np.divide(asked_B1, rest_BN, out=all_of_it_BN, where=rest_BN != 0)
    return share_BN


@dataclass(frozen=True)
class BalancedAllocation(_Plain):
    """NodeResourcesBalancedAllocation of kube-scheduler 1.20.5: CPU and memory in use in the same proportion."""

    name: str = "balanced-allocation-1.20@1"
    features = FeatureSchema(
        pod=("cpu_scored", "memory_scored"),
        node=("cpu_scored", "cpu_capacity", "memory_scored", "memory_capacity"),
    )
    scope: Scope = "node"
    normalise: Normalise = "none"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        used = []
        for kind in ("cpu", "memory"):
            capacity_BN = batch.node(f"{kind}_capacity")
            asked_BN = batch.node(f"{kind}_scored") + batch.pod(f"{kind}_scored")
            used.append(np.divide(asked_BN, capacity_BN, out=np.ones_like(asked_BN), where=capacity_BN > 0))
        balanced_BN = np.trunc((1.0 - np.abs(used[0] - used[1])) * 100.0)
        out_BN[:] = np.where((used[0] >= 1) | (used[1] >= 1), 0.0, balanced_BN)


@dataclass(frozen=True)
class RandomNode(_Plain):
    """RandomScore beside other plugins: 100 for one candidate, each with the same chance, 0 for the rest."""

    name: str = "simon-random@1"
    features = FeatureSchema(pod=("draw",), node=("rank",))
    scope: Scope = "cluster"
    normalise: Normalise = "none"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0.0
        for b, feasible_N in enumerate(batch.feasible_BN):
            candidates = np.flatnonzero(feasible_N)
            if len(candidates):
                draw, rank_N = int(batch.pod("draw")[b, 0] * DRAW_STEPS), batch.node("rank")[b]
                out_BN[b, max(candidates, key=lambda n: random_unit(draw, int(rank_N[n])))] = 100.0


def score_policy(plugin: str, matching: DotProduct = PUBLISHED, *, alone: bool = True) -> Policy:
    """The policy of one score plugin; `matching` is about DotProductScore, `alone` about RandomScore."""
    if plugin in _COMPILED:
        return registered()[_COMPILED[plugin]]
    if plugin == DOT_PRODUCT:
        return registered()["dot-product@1"] if matching == PUBLISHED else matching
    if plugin == "RandomScore":
        return registered()["random@1"] if alone else RandomNode()
    if plugin == "Simon":
        return SimonShare()
    if plugin == "NodeResourcesBalancedAllocation":
        return BalancedAllocation()
    raise UnknownNameError("score plugin", plugin, SCORE_PLUGINS)


def plugin_policy(
    weights: Sequence[tuple[str, int]], gpu_sel: str, scoring: DotProduct, selecting: DotProduct
) -> Policy:
    """All enabled score plugins as one policy, with the devices that gpuSelMethod chooses.

    Without any plugin all nodes are equal, so that the order of nodes decides. `scoring` are the settings of the plugin
    DotProductScore, `selecting` those of Open-Gpu-Share.
    """
    alone = len(weights) == 1
    parts = tuple(score_policy(name, scoring, alone=alone) for name, _ in weights)
    if not parts:
        scores: Policy = registered()["first-fit@1"]
    else:
        scores = parts[0] if alone else WeightedSum(parts, tuple(float(weight) for _, weight in weights))
    if gpu_sel in _DEVICE_RULES:
        return DeviceChoice(scores, _DEVICE_RULES[gpu_sel])
    if gpu_sel != DOT_PRODUCT:
        raise UnknownNameError("gpuSelMethod", gpu_sel, GPU_SEL_METHODS)
    if selecting.dim_ext == "merge":
        problem = "DotProductScore with dimExtMethod merge is about whole nodes and names no device"
        raise InputError(problem, field="gpuSelMethod", expected="dimExtMethod share, divide or extend")
    return DotProductDevices(scores, selecting)
