"""Weighted sums of policies, as kube-scheduler weighs its score plugins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from pilotage.kernels.choosing import INFEASIBLE, Rules, choosing_mode, weighted_total
from pilotage.kernels.scoring import PRICED
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
    device_rule_of,
    prepared,
)


@dataclass(frozen=True)
class WeightedSum:
    """Each part is normalised as it asks for, then weighed. The heaviest part names the device."""

    parts: tuple[Policy, ...]
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        return "+".join(f"{weight:g}*{part.name}" for weight, part in zip(self.weights, self.parts, strict=True))

    @property
    def summary(self) -> str:
        return "weighted sum"

    @property
    def takes_long(self) -> bool:
        return any(getattr(part, "takes_long", False) for part in self.parts)

    @property
    def features(self) -> FeatureSchema:
        return FeatureSchema(
            pod=tuple(dict.fromkeys(chain.from_iterable(part.features.pod for part in self.parts))),
            node=tuple(dict.fromkeys(chain.from_iterable(part.features.node for part in self.parts))),
        )

    @property
    def scope(self) -> Scope:
        alone = all(part.scope == "node" and part.normalise == "none" for part in self.parts)
        return "node" if alone else "cluster"

    @property
    def normalise(self) -> Normalise:
        return "none"

    @property
    def device_rule(self) -> DeviceRule:
        return device_rule_of(self.parts[self._heaviest])

    @property
    def _heaviest(self) -> int:
        return self.weights.index(max(self.weights))

    @property
    def rules(self) -> Rules | None:
        """One compiled sum where every part is compiled, and at most one of them has prices: there is one table."""
        parts = [compiled_rules(part) for part in self.parts]
        known = [part for part in parts if part is not None]
        priced = [part for part in known if PRICED in part.rule_K]
        if len(known) < len(parts) or len(priced) > 1:
            return None
        minmax_K = np.concatenate([part.minmax_K for part in known])
        return Rules(
            rule_K=np.concatenate([part.rule_K for part in known]),
            weight_K=np.concatenate([w * part.weight_K for w, part in zip(self.weights, known, strict=True)]),
            minmax_K=minmax_K,
            mode=choosing_mode(all(part.scope == "node" for part in self.parts), minmax_K),
            typical=next((part for part in known if PRICED not in part.rule_K), known[0]).typical,
            prices=(priced or known)[0].prices,
        )

    def prepare(self, mix: WorkloadMix) -> WeightedSum:
        return WeightedSum(tuple(prepared(part, mix) for part in self.parts), self.weights)

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        raw_KBN = np.full((len(self.parts), *out_BN.shape), INFEASIBLE)
        for k, part in enumerate(self.parts):
            named_BN = np.full(device_BN.shape, -1, np.int64)
            ask(part, batch, raw_KBN[k], named_BN)
            if k == self._heaviest:
                device_BN[:] = named_BN
        raw_KBN[:, ~batch.feasible_BN] = INFEASIBLE
        minmax_K = np.array([part.normalise == "minmax" for part in self.parts])
        for b in range(len(out_BN)):
            weighted_total(np.ascontiguousarray(raw_KBN[:, b]), np.array(self.weights), minmax_K, out_BN[b])
