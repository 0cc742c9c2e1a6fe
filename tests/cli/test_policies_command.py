"""`pilotage policies`: what can be named, and whether it keeps the contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage.policies.checkpoints import WEIGHTS, write_checkpoint
from pilotage.policies.heuristics import HEURISTICS
from reference.random_weights import KINDS, MLP, random_checkpoint

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


# Learned ones


@pytest.fixture
def best(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "best", random_checkpoint(MLP))
    return tmp_path / "best"


def test_how_a_learned_policy_came_about_is_shown(best: Path) -> None:
    done = pilotage("policies", "--show", str(best))
    assert done.code == 0
    for shown in ("random-mlp@1", "nothing in particular", "hidden", "training agent", "[10000, 10004]", "-1.5"):
        assert shown in done.out
    done = pilotage("policies", "--show", str(best), "--json")
    assert json.loads(done.out) == random_checkpoint(MLP).specification()


def test_a_policy_that_is_not_learned_has_no_such_thing() -> None:
    done = pilotage("policies", "--show", "fgd")
    assert (done.code, done.out) == (2, "")
    assert "fgd@1 is not learned" in done.err


def test_learned_policies_are_checked_and_refused_as_others(best: Path) -> None:
    assert pilotage("policies", "--check", str(best)).out == "random-mlp@1 keeps the contract\n"
    (best / WEIGHTS).write_bytes((best / WEIGHTS).read_bytes()[:-1])
    done = pilotage("policies", "--check", str(best))
    assert (done.code, done.out) == (2, "")
    assert "is truncated" in done.err


def test_learned_policies_take_part_in_comparisons(tmp_path: Path) -> None:
    texts = []
    for architecture in KINDS:
        place = tmp_path / architecture.kind / str(architecture.depth)
        write_checkpoint(place, random_checkpoint(architecture, name=f"mine-{architecture.kind}@{architecture.depth}"))
        texts.append(str(place))
    trace = tmp_path / "trace"
    made = pilotage("trace", "generate", "openb-like", "--pods", "60", "--nodes-scale", "0.02", "--out", str(trace))
    assert made.code == 0
    files = ("--nodes", str(trace / "nodes.csv"), "--pods", str(trace / "openb-like.csv"))
    done = pilotage("compare", *files, "--policies", ",".join(texts), "--seeds", "1,2", "--jobs", "2", "--json")
    assert (done.code, done.err) == (0, "")
    runs = json.loads(done.out)["runs"]
    assert {run["policy"] for run in runs} == {"mine-prices@0", "mine-mlp@0", "mine-mlp@2", "mine-graph@2"}
    assert len(runs) == 8
