"""A policy of one's own: the candidate with the least CPU left over wins.

pilotage policies --check examples/02_own_policy.py:TightestCpu
pilotage compare --trace openb-like --policies fgd,examples/02_own_policy.py:TightestCpu --seeds 42
"""

from __future__ import annotations

from typing import Literal

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import DecisionBatch, FeatureSchema, WorkloadMix


class TightestCpu:
    name = "tightest-cpu@1"  # a change of behaviour is a new version
    features = FeatureSchema(pod=("cpu_milli",), node=("cpu_free",))
    scope: Literal["node"] = "node"  # the score depends on pod and node alone, so it is kept until the node changes
    normalise: Literal["none"] = "none"

    def prepare(self, mix: WorkloadMix) -> TightestCpu:
        return self  # nothing to learn from the workload

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = batch.pod("cpu_milli") - batch.node("cpu_free")


if __name__ == "__main__":
    from pilotage.policies.checking import check_policy

    check_policy(TightestCpu())
    print("tightest-cpu@1 keeps the contract")
