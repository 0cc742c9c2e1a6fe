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
from pilotage.kernels.choosing import BY_MAXIMA, Rules
from pilotage.kernels.prices import (
    CPU_LEFT,
    CPU_PER_GPU,
    CPU_STEP,
    CPU_STEPS,
    FIGURES,
    FULL,
    MEMORY_LEFT,
    RATIO_STEPS,
    RATIOS,
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
IDLE_SHARE_KNOTS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0)  # idle devices / devices of the node
ABOUT_CPU = (CPU_PER_GPU, CPU_LEFT, FULL)  # figures whose weights depend on how scarce CPU is
BULKY = 2  # of those, the first ones depend on the bulk of pods without GPU
SERVED = 2  # functions of WorkloadFacts.served_by_cpu and served_by_memory
MODEL_FUNCTIONS = ("tied", "part_squared", "root_of_part", "any")
FEW_TIED = 0.05
CHUNKS = 2  # functions of WorkloadFacts.cpu_chunks
LAYOUT = {
    "weights": len(POD_KINDS) * len(FIGURES),
    "leftover": len(FUNCTIONS),
    "idle": len(IDLE_KNOTS),
    "idle_share": len(IDLE_SHARE_KNOTS),
    "several": len(IDLE_FUNCTIONS),
    "cpu": len(CPU_KNOTS),
    "served_by_cpu": SERVED,
    "memory": len(MEMORY_KNOTS),
    "served_by_memory": SERVED,
    "cpu_share": len(SHARE_KNOTS),
    "memory_share": len(SHARE_KNOTS),
    "small_pods": 3,
    "gpu_pods": 3,
    "cpu_chunks": CHUNKS,
    "model": len(MODEL_FUNCTIONS),
    "scarce_weights": len(POD_KINDS) * len(ABOUT_CPU),
    "very_scarce_weights": len(ABOUT_CPU),
    "bulky_weights": BULKY,
    "scarce_cpu": len(CPU_KNOTS),
    "scarce_served": SERVED,
    "scarce_memory": len(MEMORY_KNOTS),
    "scarce_small_pods": 3,
    "scarce_gpu_pods": 3,
    "scarce_cpu_chunks": CHUNKS,
    "only_weights": len(POD_KINDS) * len(ABOUT_CPU),
    "only_cpu": len(CPU_KNOTS),
    "only_small_pods": 3,
    "only_gpu_pods": 3,
    "only_cpu_chunks": CHUNKS,
    "tight_weights": len(POD_KINDS),
    "tight_memory": len(MEMORY_KNOTS),
    "tight_served": SERVED,
    "multi_idle": len(IDLE_KNOTS),
    "multi_idle_share": len(IDLE_SHARE_KNOTS),
    "multi_several": len(IDLE_FUNCTIONS),
    "crowded_several": len(IDLE_FUNCTIONS),
    "multi_whole": 2,
    "shared_leftover": len(FUNCTIONS),
}
# Parts of the parameter vector. "scarce": times how scarce CPU is; "tight": times how scarce memory is; "only": times
# the share of CPU that pods without GPU ask for; "multi", "shared": times the share of GPU that such pods ask for;
# "very_scarce": of pods without GPU, times the square of how scarce CPU is; "bulky": of these, times the pod's bulk;
# "crowded": times how much of the room for pods with several devices they ask for.
PARAMETERS = sum(LAYOUT.values())

NOTHING_TYPICAL = typical_pods(NO_MIX)  # rules hold typical pods for FGD's measure, which has no part here
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


def prices_of(parameters: FloatArray, facts: WorkloadFacts) -> FloatArray:
    """The tables of one workload, in the order of kernels.prices."""
    part = parts_of(parameters)
    tables: tuple[FloatArray | list[float], ...] = (
        _device_table(part, facts),
        *_ratio_tables(part, facts),
        _cpu_tables(part, facts).ravel(),
        _weights(part, facts).ravel(),
        [1 / facts.cpu_per_gpu, 1 / facts.memory_per_gpu],
        [float(part["cpu_share"].any() or part["memory_share"].any())],
        [1 / facts.cpu_per_node, *part["bulky_weights"]],
        _idle_table(part, facts).ravel(),
        [0.0],
        part["model"] @ model_functions(facts.tied_M),
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
        return np.asarray(part[name] + changed)

    steps = np.arange(CPU_STEPS) * CPU_STEP
    small, with_gpu = facts.cpu_only_within(steps)[:, None], facts.gpu_within(steps)[:, None]
    table: FloatArray = small * times("small_pods") + with_gpu * times("gpu_pods")
    table[:, 0] += times("cpu_chunks") @ facts.cpu_chunks(steps)
    return table


def _weights(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    weight_KX = part["weights"].reshape(len(POD_KINDS), len(FIGURES)).copy()
    about_cpu = facts.scarcity * part["scarce_weights"] + facts.cpu_only * part["only_weights"]
    weight_KX[:, ABOUT_CPU] += about_cpu.reshape(len(POD_KINDS), len(ABOUT_CPU))
    weight_KX[POD_KINDS.index("cpu"), ABOUT_CPU] += facts.scarcity**2 * part["very_scarce_weights"]
    weight_KX[:, MEMORY_LEFT] += facts.memory_scarcity * part["tight_weights"]
    return weight_KX


def _idle_table(part: dict[str, FloatArray], facts: WorkloadFacts) -> FloatArray:
    """By devices and idle devices. One curve is the worth of so many idle devices, the other that of a device of the
    node: what one more idle device adds then depends on which part of the node is idle, for nodes of any size."""
    devices_I = np.arange(MAX_DEVICES + 1)
    share_DI = np.minimum(devices_I[None] / np.maximum(devices_I, 1)[:, None], 1.0)
    curve_I = np.interp(devices_I, IDLE_KNOTS, part["idle"] + facts.multi * part["multi_idle"])
    each_DI = np.interp(share_DI, IDLE_SHARE_KNOTS, part["idle_share"] + facts.multi * part["multi_idle_share"])
    weights = part["several"] + facts.multi * part["multi_several"] + facts.crowding * part["crowded_several"]
    functions_I = weights @ idle_functions(facts.several, facts.several_gpu)
    table: FloatArray = devices_I[:, None] * each_DI + (curve_I + functions_I)[None]
    return table


def model_functions(tied_M: FloatArray) -> FloatArray:
    """MODEL_FUNCTIONS by model. `tied_M`: how much of it pods ask for that accept no other."""
    part_M = np.minimum(tied_M, 1.0)
    return np.array([tied_M, part_M**2, np.sqrt(part_M), np.minimum(tied_M / FEW_TIED, 1.0)])


@dataclass(frozen=True)
class Priced:
    """The policy of one vector of parameters."""

    name: str
    parameters: FloatArray = field(compare=False, repr=False)
    summary: str = "least loss of the learned value of what is left"
    prices: FloatArray = field(default_factory=lambda: NO_PRICES, compare=False, repr=False)
    features: FeatureSchema = FEATURES
    scope: Scope = "node"
    normalise: Normalise = "none"
    device_rule: DeviceRule = "priced"

    def prepare(self, mix: WorkloadMix) -> Priced:
        return self.priced_by(WorkloadFacts.of(mix))

    def priced_by(self, facts: WorkloadFacts) -> Priced:
        return replace(self, prices=prices_of(self.parameters, facts))

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.parameters.tobytes()).hexdigest()

    @property
    def rules(self) -> Rules:
        rule_K, plain_K = np.array([scoring.PRICED]), np.array([False])
        return Rules(rule_K, np.ones(1), plain_K, BY_MAXIMA, NOTHING_TYPICAL, self.prices)

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        score_by_rules(self.rules, batch, out_BN, device_BN)
