"""`pilotage policies`: what can be named, and whether it keeps the contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage.policies.heuristics import HEURISTICS

WRITTEN = Path(__file__).parent.parent / "policies" / "written_policies.py"


def test_json_lists_every_policy_with_its_features() -> None:
    done = pilotage("policies", "--json")
    assert done.code == 0
    rows = {row["name"]: row for row in json.loads(done.out)}
    assert {policy.name for policy in HEURISTICS} <= set(rows)
    fgd = rows["fgd@1"]
    assert (fgd["compiled"], fgd["scope"], fgd["normalise"], fgd["device_rule"]) == (True, "node", "none", "fgd")
    assert fgd["pod_features"] == ["cpu_milli", "gpu_milli", "gpu_count"]
    assert rows["best-fit@1"]["normalise"] == "minmax"
    assert rows["random@1"]["scope"] == "cluster"
    assert all(row["summary"] for row in rows.values())


def test_the_table_says_how_to_name_others() -> None:
    done = pilotage("policies")
    assert done.code == 0
    assert "fgd@1" in done.out
    assert "2*fgd+best-fit" in done.out


@pytest.mark.parametrize("policy", ["fgd", f"{WRITTEN}:Tight", "2*fgd+best-fit"])
def test_a_policy_that_keeps_the_contract_is_told_so(policy: str) -> None:
    done = pilotage("policies", "--check", policy)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("keeps the contract\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("LooksAtOtherNodes", "depends on other nodes"),
        ("WritesIntoNodes", "writes into its inputs"),
        ("BadFeature", "did you mean 'cpu_free'"),
        ("RaisesInScore", "raises ZeroDivisionError"),
    ],
)
def test_a_policy_that_does_not_is_told_why(name: str, said: str) -> None:
    done = pilotage("policies", "--check", f"{WRITTEN}:{name}")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
