"""A built-in policy as a user's own class in plain Python is to the engine."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, WorkloadMix, device_rule_of
from pilotage.policies.device_choice import ScoresOf


@dataclass(frozen=True)
class Uncompiled(ScoresOf):
    """A policy without its rules: only `score` is left."""

    @property
    def device_rule(self) -> DeviceRule:
        rule = device_rule_of(self.policy)
        return "best" if rule in ("fgd", "priced") else rule  # these policies name the device of a share themselves

    def prepare(self, mix: WorkloadMix) -> Uncompiled:
        return Uncompiled(self.policy.prepare(mix))

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        self.policy.score(batch, out_BN, device_BN)
