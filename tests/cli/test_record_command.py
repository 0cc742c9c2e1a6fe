"""`pilotage record` and the process that learns: what they tell and keep of a recording."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kube.objects import a_node, a_pod
from pilotage.cli import record, train_cluster
from pilotage.kube.recording import RecordedNodes, RecordedPods, Recording
from pilotage.model.clock import VirtualClock
from pilotage.training import on_cluster
from pilotage.training.on_cluster import ClusterLearning
from pilotage.workloads.openb import read_pods

JANUARY = 1767225600.0  # 2026-01-01


def recorded() -> Recording:
    clock = VirtualClock(JANUARY)
    recording = Recording(clock)
    nodes, pods = RecordedNodes(recording), RecordedPods(recording)
    nodes.listed([a_node("a")])
    nodes.changed(a_node("b"))
    nodes.deleted(a_node("a"))
    for number in range(3):
        clock.wait(1)
        pods.changed(a_pod(f"p{number}", node="b", nodeSelector={"pool": "x"}))
        pods.deleted(a_pod(f"p{number}", node="b"))
    pods.changed(a_pod("runs", node="b"))
    return recording


def test_what_is_not_in_the_trace_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def seen(*_: object) -> Recording:
        return recorded()

    monkeypatch.setattr(record, "_record", seen)
    record.record(out=tmp_path / "json", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["constraints_left_out"], told["nodes_came"], told["nodes_went"]) == (3, 1, 1)
    record.record(out=tmp_path / "text")
    assert "4 pods" in " ".join(capsys.readouterr().out.split())


def test_a_long_learner_forgets_the_pods_that_ended_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_cluster, "MOST_ENDED", 1)
    monkeypatch.setattr(on_cluster, "learn_once", lambda place, *_: list(read_pods(place / "pods.csv").names))
    attempt = train_cluster._attempt(recorded(), tmp_path, "pilotage-pack", ClusterLearning(), asyncio.Event())
    assert asyncio.run(attempt) == ["p2", "runs"]  # type: ignore[comparison-overlap]
