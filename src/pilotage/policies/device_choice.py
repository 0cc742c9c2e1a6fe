"""A policy with another rule for the devices of the chosen node, as simon's gpuSelMethod sets it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pilotage.kernels import scoring
from pilotage.kernels.choosing import BY_MAXIMA, Rules
from pilotage.kernels.fragmentation import Typical
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import (
    DecisionBatch,
    DeviceRule,
    FeatureSchema,
    Normalise,
    Policy,
    Scope,
    WorkloadMix,
    ask,
    compiled_rules,
    prepared,
)
from pilotage.policies.compiled import NO_PRICES, score_by_rules
from pilotage.policies.heuristics import NO_MIX
from pilotage.policies.mix import typical_pods


@dataclass(frozen=True)
class ScoresOf:
    """What a policy is that takes its scores from another one."""

    policy: Policy

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def features(self) -> FeatureSchema:
        return self.policy.features

    @property
    def scope(self) -> Scope:
        return self.policy.scope

    @property
    def normalise(self) -> Normalise:
        return self.policy.normalise


@dataclass(frozen=True)
class DeviceChoice(ScoresOf):
    """Scores of `policy`; devices by `device_rule`, whatever device the policy names."""

    device_rule: DeviceRule
    typical: Typical | None = None

    @property
    def rules(self) -> Rules | None:
        """Those of the policy, with typical pods: FGD's choice of a device needs them, the policy may not."""
        rules = compiled_rules(self.policy)
        return None if rules is None else rules._replace(typical=self._typical)

    def prepare(self, mix: WorkloadMix) -> DeviceChoice:
        return replace(self, policy=prepared(self.policy, mix), typical=typical_pods(mix))

    @property
    def _typical(self) -> Typical:
        return typical_pods(NO_MIX) if self.typical is None else self.typical

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        ask(self.policy, batch, out_BN, device_BN)
        device_BN[:] = -1
        if self.device_rule == "fgd":
            fgd = Rules(np.array([scoring.FGD]), np.ones(1), np.array([False]), BY_MAXIMA, self._typical, NO_PRICES)
            score_by_rules(fgd, batch, np.empty_like(out_BN), device_BN)
