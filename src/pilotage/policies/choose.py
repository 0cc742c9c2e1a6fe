"""The only chooser outside the compiled episode: scores of candidates become one node and its devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE, weighted_total
from pilotage.kernels.devices import DEVICE_RULES, choose_devices
from pilotage.kernels.features import DRAW_STEPS, random_unit
from pilotage.model.errors import PolicyError
from pilotage.model.workload import GPU_MILLI, FloatArray, IntArray, PodShape
from pilotage.policies.api import DecisionBatch, DeviceRule, Policy, ask


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one decision as the policy gave them, and the device each is for (-1 = the device rule)."""

    raw_N: FloatArray
    device_N: IntArray
    minmax: bool

    def totals(self) -> FloatArray:
        """After normalisation."""
        return total_scores(self.raw_N[None], self.minmax)


def score_candidates(policy: Policy, batch: DecisionBatch) -> Scores:
    """Scores the single decision of `batch`; nodes that are no candidates get -inf."""
    feasible_N = batch.feasible_BN[0]
    raw_BN = np.full(batch.feasible_BN.shape, INFEASIBLE)
    device_BN = np.full(batch.feasible_BN.shape, -1, np.int64)
    ask(policy, batch, raw_BN, device_BN)
    if not np.isfinite(raw_BN[0, feasible_N]).all():
        raise PolicyError(f"{policy.name}: a candidate's score is not a finite number")
    raw_BN[0, ~feasible_N] = INFEASIBLE
    return Scores(raw_BN[0], device_BN[0], policy.normalise == "minmax")


def total_scores(raw_KN: FloatArray, minmax: bool) -> FloatArray:
    total_N = np.empty(raw_KN.shape[1])
    weighted_total(raw_KN, np.ones(len(raw_KN)), np.full(len(raw_KN), minmax), total_N)
    return total_N


def best_node(total_N: FloatArray, rank_N: IntArray) -> int:
    """Highest total, lowest rank among equals; -1 when there is no candidate."""
    highest = total_N.max()
    if highest == INFEASIBLE:
        return -1
    ties = np.flatnonzero(total_N == highest)
    return int(ties[rank_N[ties].argmin()])


def devices_for(
    shape: PodShape, left_D: IntArray, count: int, device: int, rule: DeviceRule, draw: float, policy_name: str
) -> int:
    """Bit mask of the pod's devices on its node: the one its policy names, else by the device rule."""
    if shape.gpu_devices:
        return shape.gpu_devices
    if device >= 0 and shape.gpu_count == 1 and shape.gpu_milli < GPU_MILLI:
        if device >= count or left_D[device] < shape.gpu_milli:
            raise PolicyError(f"{policy_name}: device {device} has no room for {shape.gpu_milli} milli")
        return 1 << device
    second_draw = random_unit(int(draw * DRAW_STEPS), -1)
    return int(choose_devices(left_D, count, shape.gpu_milli, shape.gpu_count, DEVICE_RULES.index(rule), second_draw))
