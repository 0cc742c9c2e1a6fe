"""Learning from a recorded cluster: a copy takes over when it is better on orders it has not seen, and only then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.specs import TraceSource
from pilotage.training import on_cluster
from pilotage.training.on_cluster import CURRENT, LOG, ClusterLearning, StoppedError, attempts, learn_once, take_over
from pilotage.workloads import openb
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods

QUICK = ClusterLearning(generations=1, population=5, seeds=1, judges=2)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    directory = tmp_path / "recorded"
    directory.mkdir()
    openb.write_nodes(directory / "nodes.csv", openb_like_nodes(0.01))
    openb.write_pods(directory / "pods.csv", openb_like_pods(120, times=Times(nodes_scale=0.01)))
    return directory


@pytest.mark.parametrize(
    ("differences", "wins"), [([0.20, 0.21, 0.22], True), ([0.3, -0.1], False), ([0.0, 0.0], False)]
)
def test_only_a_better_copy_takes_over(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differences: list[float], wins: bool
) -> None:
    monkeypatch.setattr(on_cluster, "judged", lambda *given: np.array(differences))
    place = tmp_path / "learned"
    place.mkdir()
    verdict = learn_once(recorded, "pilotage-pack", place, QUICK)
    assert verdict.taken_over is wins
    assert verdict.pods == 120
    assert (place / CURRENT).exists() is wins
    assert json.loads((place / LOG).read_text())["taken_over"] is wins
    if wins:
        policy = find_policy(str((place / CURRENT).resolve()))
        assert policy.name == "learned-1@1"
        assert learn_once(recorded, "pilotage-pack", place, QUICK).current == str(place / "policies" / "00001")
        assert attempts(place) == 2


def test_what_is_in_use_is_no_better_than_itself(recorded: Path, tmp_path: Path) -> None:
    source = TraceSource(recorded / "nodes.csv", recorded / "pods.csv")
    run = on_cluster._tuning(source, "pilotage-pack", tmp_path / "attempt", QUICK, 1)
    assert on_cluster.judged(source, run.workloads, "pilotage-pack", run.start, QUICK).tolist() == [0.0, 0.0]


def test_an_attempt_that_is_told_to_end_has_no_verdict(recorded: Path, tmp_path: Path) -> None:
    asked = iter([False])  # before the second generation; then it is told
    with pytest.raises(StoppedError):
        learn_once(recorded, "pilotage-pack", tmp_path, QUICK, stop=lambda: next(asked, True))
    assert attempts(tmp_path) == 0


def test_few_pods_are_not_learned_from(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="120 pods were recorded"):
        learn_once(recorded, "pilotage-pack", tmp_path, ClusterLearning(fewest_pods=121))


def test_the_link_moves_and_policies_stay(tmp_path: Path) -> None:
    for number, text in ((1, "one"), (2, "two")):
        best = tmp_path / f"best-{number}"
        best.mkdir()
        (best / "policy.json").write_text(text)
        take_over(best, tmp_path, number)
        assert (tmp_path / CURRENT / "policy.json").read_text() == text
    assert (tmp_path / "policies" / "00001" / "policy.json").read_text() == "one"
    assert [path.name for path in tmp_path.glob(".current*")] == []
