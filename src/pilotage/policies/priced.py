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
    MEMORY_LEFT,
    RATIO_STEPS,
    RATIOS,
    USABLE,
)
from pilotage.model.cluster import MAX_DEVICES
from pilotage.model.workload import GPU_MILLI, POD_KINDS, FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Scope, WorkloadMix
from pilotage.policies.compiled import NO_PRICES, score_by_rules
from pilotage.policies.heuristics import NO_MIX
from pilotage.policies.idle_prices import FUNCTIONS as IDLE_FUNCTIONS
from pilotage.policies.idle_prices import idle_functions
from pilotage.policies.leftover_prices import FUNCTIONS, leftover_functions
from pilotage.policies.mix import typical_pods
from pilotage.policies.workload_facts import WorkloadFacts

CPU_KNOTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)  # CPU left / what goes with the GPUs left
MEMORY_KNOTS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
SHARE_KNOTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # left / capacity of the node
IDLE_KNOTS = (0, 1, 2, 3, 4, 6, 8, 12, 16)  # idle devices
ABOUT_CPU = (CPU_PER_GPU, CPU_LEFT, USABLE)  # figures whose weights depend on how scarce CPU is
SERVED = 2  # functions of WorkloadFacts.served_by_cpu and served_by_memory
LAYOUT = {
    "weights": len(POD_KINDS) * len(FIGURES),
    "leftover": len(FUNCTIONS),
    "idle": len(IDLE_KNOTS),
    "several": len(IDLE_FUNCTIONS),
    "cpu": len(CPU_KNOTS),
    "served_by_cpu": SERVED,
    "memory": len(MEMORY_KNOTS),
    "served_by_memory": SERVED,
    "cpu_share": len(SHARE_KNOTS),
    "memory_share": len(SHARE_KNOTS),
    "small_pods": 3,
    "gpu_pods": 3,
    "model": 2,
    "scarce_weights": len(POD_KINDS) * len(ABOUT_CPU),
    "bulky_weights": len(ABOUT_CPU),
    "scarce_cpu": len(CPU_KNOTS),
    "scarce_served": SERVED,
    "scarce_memory": len(MEMORY_KNOTS),
    "scarce_small_pods": 3,
    "scarce_gpu_pods": 3,
    "only_weights": len(POD_KINDS) * len(ABOUT_CPU),
    "only_cpu": len(CPU_KNOTS),
    "only_small_pods": 3,
    "only_gpu_pods": 3,
    "tight_weights": len(POD_KINDS),
    "tight_memory": len(MEMORY_KNOTS),
    "tight_served": SERVED,
    "multi_idle": len(IDLE_KNOTS),
    "multi_several": len(IDLE_FUNCTIONS),
    "crowded_several": len(IDLE_FUNCTIONS),
    "multi_whole": 2,
    "shared_leftover": len(FUNCTIONS),
}
# Parts of the parameter vector. "scarce": times how scarce CPU is; "tight": times how scarce memory is; "only": times
# the share of CPU that pods without GPU ask for; "multi", "shared": times the share of GPU that such pods ask for;
# "bulky": of pods without GPU, times how scarce CPU is and how large these pods are;
# "crowded": times how much of the room for pods with several devices they ask for.
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
    tied_M, weight_KX = facts.tied_M, _weights(part, facts)
    tables = (
        _device_table(part, facts),
        *_ratio_tables(part, facts),
        _cpu_tables(part, facts).ravel(),
        weight_KX.ravel(),
        [1 / facts.cpu_per_gpu, 1 / facts.memory_per_gpu],
        [float(part["cpu_share"].any() or part["memory_share"].any()), float(weight_KX[:, USABLE].any())],
        _idle_table(part, facts),
        [0.0],
        part["model"][0] * tied_M + part["model"][1] * np.minimum(tied_M, 1) ** 2,
    )
    return np.concatenate(tables)


def _device_table(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    functions = leftover_functions(facts.sizes, facts.pods, facts.whole)
    left = np.arange(GPU_MILLI + 1) / GPU_MILLI
    whole = part["multi_whole"][0] * (left == 1) + part["multi_whole"][1] * left
    table: FloatArray = (part["leftover"] + facts.shared * part["shared_leftover"]) @ functions + facts.multi * whole
    return table


def _ratio_tables(part: dict[str, FloatArray], facts: WorkloadFacts) -> tuple[FloatArray, ...]:
    """phi, psi, h and k by ratio."""
    scarce, tight, ratio_Q = facts.scarcity, facts.memory_scarcity, np.arange(RATIOS) / RATIO_STEPS
    cpu = part["cpu"] + scarce * part["scarce_cpu"] + facts.cpu_only * part["only_cpu"]
    memory = part["memory"] + scarce * part["scarce_memory"] + tight * part["tight_memory"]
    by_cpu = part["served_by_cpu"] + scarce * part["scarce_served"]
    by_memory = part["served_by_memory"] + tight * part["tight_served"]
    return (
        np.interp(ratio_Q, CPU_KNOTS, cpu) + by_cpu @ facts.served_by_cpu(ratio_Q),
        np.interp(ratio_Q, MEMORY_KNOTS, memory) + by_memory @ facts.served_by_memory(ratio_Q),
        np.interp(ratio_Q, SHARE_KNOTS, part["cpu_share"]),
        np.interp(ratio_Q, SHARE_KNOTS, part["memory_share"]),
    )


def _cpu_tables(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    """t0, t1 and t2 beside each other, by steps of CPU left: which pods it is enough for."""

    def times(name: str) -> FloatArray:
        changed = facts.scarcity * part[f"scarce_{name}"] + facts.cpu_only * part[f"only_{name}"]
        return np.asarray(part[name] + changed)[None, :]

    steps = np.arange(CPU_STEPS) * CPU_STEP
    small, with_gpu = facts.cpu_only_within(steps)[:, None], facts.gpu_within(steps)[:, None]
    table: FloatArray = small * times("small_pods") + with_gpu * times("gpu_pods")
    return table


def _weights(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    weight_KX = part["weights"].reshape(len(POD_KINDS), len(FIGURES)).copy()
    about_cpu = facts.scarcity * part["scarce_weights"] + facts.cpu_only * part["only_weights"]
    weight_KX[:, ABOUT_CPU] += about_cpu.reshape(len(POD_KINDS), len(ABOUT_CPU))
    weight_KX[POD_KINDS.index("cpu"), ABOUT_CPU] += facts.scarcity * facts.bulk * part["bulky_weights"]
    weight_KX[:, MEMORY_LEFT] += facts.memory_scarcity * part["tight_weights"]
    return weight_KX


def _idle_table(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    curve = np.interp(np.arange(MAX_DEVICES + 1), IDLE_KNOTS, part["idle"] + facts.multi * part["multi_idle"])
    weights = part["several"] + facts.multi * part["multi_several"] + facts.crowding * part["crowded_several"]
    table: FloatArray = curve + weights @ idle_functions(facts.several, facts.several_gpu)
    return table


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
