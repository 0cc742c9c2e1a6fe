"""The built-in rules as policies: each one is an integer that kernels.scoring understands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pilotage.kernels import scoring
from pilotage.kernels.choosing import Rules, choosing_mode
from pilotage.kernels.features import GANG_COLUMNS, POD_GANG_COLUMNS
from pilotage.kernels.fragmentation import Typical
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Policy, Scope, WorkloadMix
from pilotage.policies.compiled import NO_PRICES, score_by_rules
from pilotage.policies.mix import typical_pods

NO_MIX = WorkloadMix((), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Heuristic:
    """One compiled rule. `typical` is what FGD takes from the workload; other rules ignore it."""

    name: str
    rule: int
    summary: str
    features: FeatureSchema
    scope: Scope = "node"
    normalise: Normalise = "none"
    device_rule: DeviceRule = "best"
    published_id: str = ""  # the name in the published OpenB tables
    typical: Typical = field(default_factory=lambda: typical_pods(NO_MIX), compare=False, repr=False)

    def prepare(self, mix: WorkloadMix) -> Heuristic:
        return replace(self, typical=typical_pods(mix))

    @cached_property
    def rules(self) -> Rules:
        minmax_K = np.array([self.normalise == "minmax"])
        mode = choosing_mode(self.scope == "node", minmax_K)
        return Rules(np.array([self.rule]), np.ones(1), minmax_K, mode, self.typical, NO_PRICES)

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        score_by_rules(self.rules, batch, out_BN, device_BN)


_ALLOCATED = FeatureSchema(
    pod=("cpu_scored", "memory_scored"), node=("cpu_scored", "cpu_capacity", "memory_scored", "memory_capacity")
)
_CPU_GPU = FeatureSchema(pod=("cpu_milli", "gpu_milli", "gpu_count"), node=("cpu_free", "gpu_free"))

_GANG = FeatureSchema(pod=POD_GANG_COLUMNS, node=GANG_COLUMNS)

FGD = Heuristic(
    "fgd@1",
    scoring.FGD,
    "smallest growth of GPU that typical pods could not use (fragmentation gradient descent)",
    FeatureSchema(pod=("cpu_milli", "gpu_milli", "gpu_count"), node=("cpu_free", "gpu_count", "gpu_idle", "gpu_model")),
    device_rule="fgd",
    published_id="06-FGD",
)
HEURISTICS: tuple[Policy, ...] = (
    Heuristic(
        "random@1",
        scoring.RANDOM_NODE,
        "any candidate, each with the same chance",
        FeatureSchema(pod=("draw",), node=("rank",)),
        scope="cluster",
        device_rule="random",
        published_id="01-Random",
    ),
    Heuristic(
        "round-robin@1",
        scoring.ROUND_ROBIN,
        "the candidate whose last placement is longest ago",
        FeatureSchema(node=("last_placed",)),
    ),
    Heuristic("first-fit@1", scoring.FIRST_FIT, "the first candidate in the order of nodes", FeatureSchema()),
    Heuristic(
        "least-allocated@1",
        scoring.LEAST_ALLOCATED,
        "most CPU and memory left over (kube-scheduler's default strategy)",
        _ALLOCATED,
    ),
    Heuristic(
        "most-allocated@1",
        scoring.MOST_ALLOCATED,
        "least CPU and memory left over (kube-scheduler's packing strategy)",
        _ALLOCATED,
    ),
    Heuristic(
        "balanced-allocation@1",
        scoring.BALANCED_ALLOCATION,
        "CPU and memory used in the same proportion (kube-scheduler 1.36)",
        FeatureSchema(
            pod=("cpu_milli", "memory_bytes"), node=("cpu_free", "cpu_capacity", "memory_free", "memory_capacity")
        ),
    ),
    Heuristic(
        "dot-product@1",
        scoring.DOT_PRODUCT,
        "smallest product of what is free and what is asked for",
        _CPU_GPU,
        published_id="02-DotProd",
    ),
    Heuristic(
        "gpu-clustering@1",
        scoring.GPU_CLUSTERING,
        "pods with the same kind of GPU request together",
        FeatureSchema(pod=("gpu_milli", "gpu_count"), node=("gpu_free", "gpu_kinds")),
        published_id="03-GpuClustering",
    ),
    Heuristic(
        "gpu-packing@1",
        scoring.GPU_PACKING,
        "used devices first, then idle devices of used nodes, then idle nodes",
        FeatureSchema(pod=("gpu_milli", "gpu_count"), node=("gpu_idle", "gpu_count")),
        published_id="04-GpuPacking",
    ),
    Heuristic(
        "best-fit@1",
        scoring.BEST_FIT,
        "least CPU and GPU left over, by fixed scales",
        _CPU_GPU,
        normalise="minmax",
        published_id="05-BestFit",
    ),
    FGD,
    Heuristic(
        "gang-locality@1",
        scoring.GANG_LOCALITY,
        "near the pods of its gang (node, rack, zone), the first in a rack with room; for sums: fgd+0.2*gang-locality",
        _GANG,
        scope="cluster",
    ),
    Heuristic(
        "gang-spread@1",
        scoring.GANG_SPREAD,
        "far from the placed pods of its gang: another zone, rack, node; for sums",
        _GANG,
        scope="cluster",
    ),
)
