"""A policy of several valuations: on each workload it is the one that did best in a rehearsal, varied until it did
better still, or FGD if that did best.

No one value function is best everywhere: how much CPU a leftover of GPU deserves, or what whole idle devices are worth,
turns with the mix of pods and nodes in ways that figures of the mix do not tell. Trying tells, and takes some seconds
(policies.rehearsal, policies.practice). What was found for a mix is kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from pilotage.kernels.choosing import Rules
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Scope, WorkloadMix
from pilotage.policies.heuristics import FGD, Heuristic
from pilotage.policies.practice import practised, usual_orders, usual_runs
from pilotage.policies.priced import FEATURES, Priced
from pilotage.policies.rehearsal import Rehearsal, plain_mix, race

KEPT = 64  # mixes
CLEARLY_BETTER = 0.02  # percent of capacity; less may be chance
COSTLY = 0.05  # refusals that cost more (percent of capacity): it practises on, and they cost more


@dataclass(frozen=True)
class Rehearsed:
    """Valuations of one policy; the first is the usual one, and what the policy is before it knows a workload."""

    name: str
    valuations: tuple[Priced, ...] = field(compare=False, repr=False)
    features: FeatureSchema = FEATURES
    scope: Scope = "node"
    normalise: Normalise = "none"
    device_rule: DeviceRule = "priced"
    takes_long: bool = True  # to prepare: live fronts do it in a thread (kube.readying)
    ready: dict[object, Priced | Heuristic] = field(default_factory=dict, compare=False, repr=False)

    def prepare(self, mix: WorkloadMix) -> Priced | Heuristic:
        mix = plain_mix(mix)
        known = (mix.shapes, mix.count_S.tobytes(), mix.models, mix.cluster, mix.typical)
        if known not in self.ready:
            while len(self.ready) >= KEPT:
                self.ready.pop(next(iter(self.ready)))
            self.ready[known] = self._chosen(mix)
        return self.ready[known]

    def _chosen(self, mix: WorkloadMix) -> Priced | Heuristic:
        rehearsal = Rehearsal(mix)
        if len(self.valuations) == 1 or not rehearsal.anything_to_fill:
            return self.valuations[0].prepare(mix)
        chosen, _ = race(self.valuations, rehearsal)
        start, runs, orders = self.valuations[chosen], usual_runs(rehearsal), usual_orders(rehearsal)
        found, value = practised(start, self.valuations, rehearsal, runs, orders)
        if rehearsal.cost_of_refusals(found, orders) > COSTLY:
            found, value = practised(found, self.valuations, rehearsal.stricter(), runs, orders)
        if value < -CLEARLY_BETTER:
            return replace(FGD.prepare(mix), name=self.name, summary=f"{self.summary}; here FGD, which did better")
        told = f"{self.summary}; from valuation {chosen + 1} of {len(self.valuations)}"
        return replace(found.prepare(mix), summary=told)

    @property
    def summary(self) -> str:
        return self.valuations[0].summary

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256("".join(one.fingerprint for one in self.valuations).encode()).hexdigest()

    @property
    def rules(self) -> Rules:
        return self.valuations[0].rules

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        self.valuations[0].score(batch, out_BN, device_BN)
