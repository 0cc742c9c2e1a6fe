"""Policies in plain Python: one that keeps the contract, and one for every way of breaking it."""

from __future__ import annotations

from itertools import count

import numpy as np

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, DeviceRule, FeatureSchema, Normalise, Scope, WorkloadMix


class Tight:
    """The least CPU left over."""

    name = "tight@1"
    features = FeatureSchema(pod=("cpu_milli",), node=("cpu_free",))
    scope: Scope = "node"
    normalise: Normalise = "none"

    def prepare(self, mix: WorkloadMix) -> Tight:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = batch.pod("cpu_milli") - batch.node("cpu_free")


class WritesIntoPods(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        batch.pod_BF[0, 0] += 1


class WritesIntoNodes(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        batch.node_BNF[0, 0, 0] += 1


class WritesIntoDevices(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        batch.device_left_BND[0, 0, 0] += 1


class WritesIntoFeasibility(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        batch.feasible_BN[0, 0] = ~batch.feasible_BN[0, 0]


class LeavesOut(Tight):
    """Writes no score for the first node."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:, 1:] = 0


class GivesInfinity(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = np.inf


class NamesFullDevice(Tight):
    """Names the first device, whatever is left on it."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        device_BN[:] = batch.device_left_BND.argmin(axis=2)


class NamesDeviceBeyond(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0
        device_BN[:] = 60


class Forgetful(Tight):
    """Another answer every time."""

    def __init__(self) -> None:
        self.calls = count()

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = next(self.calls)


class MixesDecisions(Tight):
    scope: Scope = "cluster"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = batch.pod_BF[:, 0].sum()


class DependsOnOrder(Tight):
    scope: Scope = "cluster"

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = np.arange(out_BN.shape[1])


class LooksAtOtherNodes(Tight):
    """Scope node, but the score compares with the largest node."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        free = batch.node("cpu_free")
        out_BN[:] = free - free.max(axis=1, keepdims=True)


class LooksAtOtherNodesOpenly(LooksAtOtherNodes):
    """The same with the scope declared: allowed."""

    scope: Scope = "cluster"


class RaisesInScore(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        raise ZeroDivisionError("nothing to divide")


class RaisesInPrepare(Tight):
    def prepare(self, mix: WorkloadMix) -> Tight:
        raise KeyError("mix")


class UnknownColumn(Tight):
    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = batch.node("cpu_fre")


class Resizes(Tight):
    """Changes the array it is given instead of its content."""

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN.resize((1, 1), refcheck=False)
        out_BN[:] = 0


class BadName(Tight):
    name = "Tight"


class BadScope(Tight):
    scope = "pod"  # type: ignore[assignment]


class BadNormalise(Tight):
    normalise = "softmax"  # type: ignore[assignment]


class BadFeature(Tight):
    features = FeatureSchema(node=("cpu_fre",))


class BadVersion(Tight):
    features = FeatureSchema(version=99)


class BadDeviceRule(Tight):
    device_rule = "first"


class RandomDevice(Tight):
    device_rule: DeviceRule = "random"


class NoScore:
    """Not a policy."""

    name = "no-score@1"
    features = FeatureSchema()
    scope: Scope = "node"
    normalise: Normalise = "none"
