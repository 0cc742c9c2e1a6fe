"""A recording as files: what training reads is what happened."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kube.objects import a_node, a_pod
from pilotage.kube.recording import RecordedNodes, RecordedPods, Recording
from pilotage.kube.recording_files import write_recording
from pilotage.model.clock import VirtualClock
from pilotage.training.demonstrations import read_demonstrations
from pilotage.workloads import openb

JANUARY = 1767225600.0  # 2026-01-01
SHARE = {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-count": "1"}


def recorded() -> Recording:
    clock = VirtualClock(JANUARY)
    recording = Recording(clock)
    nodes, pods = RecordedNodes(recording), RecordedPods(recording)
    nodes.listed([a_node("n", gpus=2), a_node("m", gpus=2)])
    for number in range(6):
        clock.wait(1)
        index = {"alibabacloud.com/gpu-index": str(number % 2)}
        pods.changed(a_pod(f"p{number}", annotations=SHARE))
        pods.changed(a_pod(f"p{number}", node="nm"[number % 2], annotations=SHARE | index))
    pods.changed(a_pod("by-others", node="n", annotations=SHARE))  # nobody wrote down its device
    pods.changed(a_pod("elsewhere", node="unseen"))
    pods.deleted(a_pod("p5", node="m", annotations=SHARE | {"alibabacloud.com/gpu-index": "1"}))  # at once
    return recording


def test_decisions_can_be_played_again(tmp_path: Path) -> None:
    write_recording(recorded(), tmp_path)
    table = pl.read_parquet(tmp_path / "decisions.parquet")
    assert table["pod"].to_list() == [f"default/p{number}" for number in range(6)]
    assert table["devices"].to_list() == [[0], [1], [0], [1], [0], [1]]
    assert table["placed_at"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [row is not None for row in table["ended_at"]] == [False] * 5 + [True]
    found = read_demonstrations(tmp_path / "decisions.parquet", openb.read_nodes(tmp_path / "nodes.csv"), 8, 0)
    assert len(found) == 6


def test_a_cluster_where_nothing_was_placed_has_an_empty_table(tmp_path: Path) -> None:
    recording = Recording(VirtualClock(JANUARY))
    RecordedNodes(recording).listed([a_node("n")])
    RecordedPods(recording).listed([a_pod("waits")])
    write_recording(recording, tmp_path)
    assert len(pl.read_parquet(tmp_path / "decisions.parquet")) == 0
