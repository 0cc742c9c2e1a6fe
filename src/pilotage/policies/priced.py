"""Policies that price what is left: a pod goes where the leftover of nodes loses least of its value.

The value function (kernels.prices) is learned once, for all workloads. What depends on the workload is computed from
its pods before a run (workload_facts, leftover_prices). `pilotage-pack` and `pilotage-balance` are two sets of its
parameters.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from pilotage.kernels import scoring
from pilotage.kernels.choosing import BY_BLOCKS, Rules
from pilotage.kernels.fragmentation import Typical
from pilotage.kernels.prices import (
    CPU_LEFT,
    CPU_PER_GPU,
    CPU_STEP,
    CPU_STEPS,
    FIGURES,
    RATIO_STEPS,
    RATIOS,
)
from pilotage.model.cluster import MAX_DEVICES
from pilotage.model.workload import GPU_MILLI, POD_KINDS, FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Scope, WorkloadMix
from pilotage.policies.compiled import NO_PRICES, score_by_rules
from pilotage.policies.heuristics import NO_MIX
from pilotage.policies.leftover_prices import FUNCTIONS, leftover_functions
from pilotage.policies.mix import typical_pods
from pilotage.policies.workload_facts import WorkloadFacts

CPU_KNOTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)  # CPU left / what goes with the GPUs left
MEMORY_KNOTS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
SHARE_KNOTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # left / capacity of the node
IDLE_KNOTS = (0, 1, 2, 3, 4, 6, 8)  # idle devices
LAYOUT = {
    "weights": len(POD_KINDS) * len(FIGURES),
    "leftover": len(FUNCTIONS),
    "idle": len(IDLE_KNOTS),
    "cpu": len(CPU_KNOTS),
    "memory": len(MEMORY_KNOTS),
    "cpu_share": len(SHARE_KNOTS),
    "memory_share": len(SHARE_KNOTS),
    "small_pods": 3,
    "model": 2,
    "scarce_weights": len(POD_KINDS) * 2,
    "scarce_cpu": len(CPU_KNOTS),
    "scarce_memory": len(MEMORY_KNOTS),
    "scarce_small_pods": 3,
    "only_weights": len(POD_KINDS) * 2,
    "only_cpu": len(CPU_KNOTS),
    "only_small_pods": 3,
    "multi_idle": len(IDLE_KNOTS),
    "multi_whole": 2,
    "shared_leftover": len(FUNCTIONS),
}
# Parts of the parameter vector. "scarce": times how scarce CPU is; "only": times the share of CPU that pods without GPU
# ask for; "multi", "shared": times the share of GPU that such pods ask for.
PARAMETERS = sum(LAYOUT.values())

FEATURES = FeatureSchema(
    pod=("cpu_milli", "memory_bytes", "gpu_milli", "gpu_count"),
    node=(
        "cpu_free",
        "cpu_capacity",
        "memory_free",
        "memory_capacity",
        "gpu_free",
        "gpu_count",
        "gpu_idle",
        "gpu_model",
    ),
)


def parts_of(vector: FloatArray) -> dict[str, FloatArray]:
    """The parameter vector by name."""
    ends = np.cumsum([*LAYOUT.values()])
    return dict(zip(LAYOUT, np.split(vector, ends[:-1]), strict=True))


def prices_of(parameters: FloatArray, mix: WorkloadMix) -> FloatArray:
    """The tables of one workload, in the order of kernels.prices."""
    part, facts = parts_of(parameters), WorkloadFacts.of(mix)
    scarce, only = facts.scarcity, facts.cpu_only
    weight_KX = part["weights"].reshape(len(POD_KINDS), len(FIGURES)).copy()
    about_cpu = scarce * part["scarce_weights"] + only * part["only_weights"]
    weight_KX[:, [CPU_PER_GPU, CPU_LEFT]] += about_cpu.reshape(len(POD_KINDS), 2)
    functions = leftover_functions(facts.sizes, facts.pods, facts.whole)
    device_L = (part["leftover"] + facts.shared * part["shared_leftover"]) @ functions
    left = np.arange(GPU_MILLI + 1) / GPU_MILLI
    device_L = device_L + facts.multi * (part["multi_whole"][0] * (left == 1) + part["multi_whole"][1] * left)
    idle_I = np.minimum(np.arange(MAX_DEVICES + 1), IDLE_KNOTS[-1])
    ratio_Q = np.arange(RATIOS) / RATIO_STEPS
    tied_M = facts.tied_M
    tables = (
        device_L,
        np.interp(ratio_Q, CPU_KNOTS, part["cpu"] + scarce * part["scarce_cpu"] + only * part["only_cpu"]),
        np.interp(ratio_Q, MEMORY_KNOTS, part["memory"] + scarce * part["scarce_memory"]),
        np.interp(ratio_Q, SHARE_KNOTS, part["cpu_share"]),
        np.interp(ratio_Q, SHARE_KNOTS, part["memory_share"]),
        facts.cpu_only_within(np.arange(CPU_STEPS) * CPU_STEP),
        weight_KX.ravel(),
        [1 / facts.cpu_per_gpu, 1 / facts.memory_per_gpu],
        part["small_pods"] + scarce * part["scarce_small_pods"] + only * part["only_small_pods"],
        [float(part["cpu_share"].any() or part["memory_share"].any())],
        np.interp(idle_I, IDLE_KNOTS, part["idle"] + facts.multi * part["multi_idle"]),
        [0.0],
        part["model"][0] * tied_M + part["model"][1] * np.minimum(tied_M, 1) ** 2,
    )
    return np.concatenate(tables)


@dataclass(frozen=True)
class Priced:
    """The policy of one vector of parameters."""

    name: str
    parameters: FloatArray = field(compare=False, repr=False)
    summary: str = "least loss of the learned value of what is left"
    prices: FloatArray = field(default_factory=lambda: NO_PRICES, compare=False, repr=False)
    typical: Typical = field(default_factory=lambda: typical_pods(NO_MIX), compare=False, repr=False)
    features: FeatureSchema = FEATURES
    scope: Scope = "node"
    normalise: Normalise = "none"
    device_rule: DeviceRule = "priced"

    def prepare(self, mix: WorkloadMix) -> Priced:
        return replace(self, prices=prices_of(self.parameters, mix), typical=typical_pods(mix))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.parameters.tobytes()).hexdigest()

    @property
    def rules(self) -> Rules:
        rule_K, plain_K = np.array([scoring.PRICED]), np.array([False])
        return Rules(rule_K, np.ones(1), plain_K, BY_BLOCKS, self.typical, self.prices)

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        score_by_rules(self.rules, batch, out_BN, device_BN)
