"""Every example runs as its docstring says and prints what it printed before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
EXPECTED = Path(__file__).resolve().parent / "expected"
PILOTAGE = Path(sys.executable).with_name("pilotage")

# Figures of a run that say enough and hold no times.
COMPARED = ("policy", "seed", "gpu_allocation_percent", "fragmentation_percent", "failed_pods", "decisions")


def output(*command: str | Path) -> str:
    """What a command prints; it is run at the root, as the documentation says."""
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pilotage_json(*arguments: str) -> object:
    return json.loads(output(PILOTAGE, *arguments, "--json"))


def runs(result: object) -> list[dict[str, object]]:
    assert isinstance(result, dict)
    return [{key: run[key] for key in COMPARED} for run in result["runs"]]


def assert_expected(name: str, text: str) -> None:
    """Compares with the stored output; UPDATE_EXPECTED=1 stores it instead."""
    path = EXPECTED / name
    if os.environ.get("UPDATE_EXPECTED") == "1":
        path.write_text(text)
    assert text == path.read_text()


def as_text(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_script_prints_what_is_stored(script: str) -> None:
    assert_expected(Path(script).with_suffix(".txt").name, output(sys.executable, EXAMPLES / script))


def test_own_policy_runs_beside_a_built_in_one() -> None:
    result = pilotage_json(
        "compare", "--trace", "openb-like", "--seeds", "42",
        "--policies", "fgd,examples/02_own_policy.py:TightestCpu",
    )  # fmt: skip
    assert_expected("02_compare.json", as_text(runs(result)))


def test_own_policy_keeps_the_contract() -> None:
    said = output(PILOTAGE, "policies", "--check", "examples/02_own_policy.py:TightestCpu")
    assert said == "tightest-cpu@1 keeps the contract\n"


def test_manifests_are_compared() -> None:
    result = pilotage_json(
        "compare", "--pods", "examples/04_manifests", "--policies", "fgd,least-allocated", "--seeds", "42-43",
        "--load", "0",
    )  # fmt: skip
    assert_expected("04_compare.json", as_text(runs(result)))


def test_manifests_are_explained() -> None:
    result = pilotage_json("simulate", "--pods", "examples/04_manifests", "--load", "0", "--explain", "train-0")
    assert_expected("04_explain.json", as_text(result))
