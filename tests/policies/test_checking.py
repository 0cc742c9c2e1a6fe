"""check_policy passes what keeps the contract and names the rule that is broken."""

from __future__ import annotations

import pytest
import written_policies as written

from pilotage.model.errors import PilotageError, PolicyError
from pilotage.policies.api import Policy
from pilotage.policies.checking import check_policy
from pilotage.policies.heuristics import HEURISTICS
from pilotage.policies.registry import find_policy
from pilotage.policies.weighted import WeightedSum

BROKEN: list[tuple[type[written.Tight], str]] = [
    (written.WritesIntoPods, "writes into its inputs"),
    (written.WritesIntoNodes, "writes into its inputs"),
    (written.WritesIntoDevices, "writes into its inputs"),
    (written.WritesIntoFeasibility, "writes into its inputs"),
    (written.LeavesOut, "without a finite score"),
    (written.GivesInfinity, "without a finite score"),
    (written.NamesFullDevice, "device without room"),
    (written.NamesDeviceBeyond, "device without room"),
    (written.Forgetful, "other scores for the same question"),
    (written.MixesDecisions, "mixes up the decisions"),
    (written.DependsOnOrder, "depends on the order of nodes"),
    (written.LooksAtOtherNodes, "depends on other nodes"),
    (written.RaisesInScore, "raises ZeroDivisionError: nothing to divide"),
    (written.RaisesInPrepare, "raises KeyError"),
    (written.UnknownColumn, "did you mean 'cpu_free'"),
    (written.Resizes, "replaces the arrays"),
    (written.BadName, "expected name@version"),
    (written.BadScope, "scope 'pod'"),
    (written.BadNormalise, "normalise 'softmax'"),
    (written.BadFeature, "unknown node feature 'cpu_fre'"),
    (written.BadVersion, "features of version 99"),
    (written.BadDeviceRule, "unknown device rule 'first'"),
]


@pytest.mark.parametrize("policy", HEURISTICS, ids=lambda policy: policy.name)
def test_every_built_in_policy_keeps_the_contract(policy: Policy) -> None:
    check_policy(policy)


def test_there_are_thirteen_built_in_policies() -> None:
    assert len({policy.name for policy in HEURISTICS}) == 13


@pytest.mark.parametrize("policy", [written.Tight(), written.LooksAtOtherNodesOpenly(), written.RandomDevice()])
def test_a_policy_in_plain_python_keeps_the_contract(policy: Policy) -> None:
    check_policy(policy)


@pytest.mark.parametrize("text", ["2*fgd+best-fit", "fgd+0.5*gpu-packing", "3*random+first-fit", "2*least-allocated"])
def test_weighted_sums_keep_the_contract(text: str) -> None:
    check_policy(find_policy(text))


def test_a_sum_with_a_part_in_plain_python_keeps_the_contract() -> None:
    check_policy(WeightedSum((written.Tight(), find_policy("fgd")), (1.0, 2.0)))


@pytest.mark.parametrize(("kind", "rule"), BROKEN, ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_a_broken_rule_is_named(kind: type[written.Tight], rule: str) -> None:
    with pytest.raises(PilotageError) as caught:
        check_policy(kind())
    assert rule in str(caught.value)


def test_missing_parts_of_the_interface_are_listed() -> None:
    with pytest.raises(PolicyError, match="a policy needs prepare, score"):
        check_policy(written.NoScore())  # type: ignore[arg-type]


def test_all_broken_rules_are_reported_at_once() -> None:
    class Both(written.Tight):
        scope = "cluster"

        def score(self, batch, out_BN, device_BN):  # type: ignore[no-untyped-def]
            out_BN[:] = batch.pod_BF[:, 0].sum() + range(out_BN.shape[1])

    with pytest.raises(PolicyError, match="mixes up the decisions") as caught:
        check_policy(Both())
    assert "depends on the order of nodes" in str(caught.value)
