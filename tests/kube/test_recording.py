"""Recording: what was seen becomes a trace."""

from __future__ import annotations

import math
from pathlib import Path

from kube.objects import a_node, a_pod
from pilotage.kube.recording import RecordedNodes, RecordedPods, Recording
from pilotage.kube.recording_files import write_recording
from pilotage.model.clock import VirtualClock
from pilotage.model.workload import FOREVER
from pilotage.workloads.openb import read_pods

JANUARY = 1767225600.0  # 2026-01-01


def test_arrival_placement_and_departure() -> None:
    recording = Recording(VirtualClock(JANUARY + 100))
    nodes, pods = RecordedNodes(recording), RecordedPods(recording)
    nodes.listed([a_node("n", gpus=2), {"metadata": {"name": "bad"}, "status": {}}])
    pods.listed([a_pod("old", node="n", created="2026-01-01T00:00:00Z")])
    waiting = a_pod("new", created="2026-01-01T00:00:10Z", nodeSelector={"pool": "a"})
    pods.changed(waiting)
    bound = a_pod("new", created="2026-01-01T00:00:10Z", node="n")
    bound["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:12Z"}
    ]
    pods.changed(bound)
    ended = a_pod("new", created="2026-01-01T00:00:10Z", node="n", phase="Succeeded")
    ended["status"]["containerStatuses"] = [{"state": {"terminated": {"finishedAt": "2026-01-01T00:00:42Z"}}}]
    pods.changed(ended)
    pods.deleted(ended)
    workload = recording.workload()
    assert list(workload.names) == ["old", "new"]
    assert workload.arrival_P.tolist() == [0.0, 10.0]
    assert workload.duration_P.tolist() == [FOREVER, 30.0]
    assert workload.pod(1).shape.constraints.terms  # as it was before it was bound
    assert [row["pod"] for row in recording.placements()] == ["default/old", "default/new"]
    assert recording.placements()[1]["bound"] == JANUARY + 12
    assert list(recording.nodes) == ["n"]
    assert recording.left_out == 1


def test_a_pod_that_is_gone_without_a_word_ended_when_it_was_missed() -> None:
    clock = VirtualClock(JANUARY)
    recording = Recording(clock)
    pods = RecordedPods(recording)
    pods.listed([a_pod("a", node="n"), a_pod("b", node="n"), a_pod("c")])
    clock.wait(50)
    pods.deleted(a_pod("a", node="n"))
    clock.wait(50)
    pods.listed([])
    ends = {entry.pod.name: entry.ended_at - JANUARY for entry in recording.pods.values()}
    assert ends == {"a": 50.0, "b": 100.0, "c": 100.0}
    assert not any(math.isinf(entry.ended_at) for entry in recording.pods.values())


def test_names_that_come_again_are_told_apart() -> None:
    recording = Recording(VirtualClock(JANUARY))
    for uid, second in (("x", "00"), ("y", "05")):
        recording.see_pod(a_pod("same", uid=uid, created=f"2026-01-01T00:00:{second}Z", namespace="other"))
    assert list(recording.workload().names) == ["other/same", "other/same.2"]


def test_gangs_are_recorded_and_who_comes_in_the_place_of_another_waits_for_nobody(tmp_path: Path) -> None:
    """They were left out without a word."""
    clock = VirtualClock(JANUARY + 10)
    recording = Recording(clock)
    nodes, pods = RecordedNodes(recording), RecordedPods(recording)
    nodes.listed([a_node("n")])
    group = {"schedulingGroup": {"podGroupName": "g"}}
    pods.listed([a_pod("alone"), *(a_pod(f"g{i}", node="n", namespace="team", **group) for i in range(3))])
    pods.deleted(a_pod("g2", node="n", namespace="team", **group))
    pods.changed(a_pod("again", created="2026-01-01T00:00:20Z", namespace="team", **group))
    write_recording(recording, tmp_path)
    workload = read_pods(tmp_path / "pods.csv")
    assert [(gang.name, gang.size) for gang in workload.gangs] == [("team/g", 3), ("team/g.2", 1)]
    assert dict(zip(workload.names, workload.gang_P.tolist(), strict=True)) == {
        "alone": -1,
        "team/g0": 0,
        "team/g1": 0,
        "team/g2": 0,
        "team/again": 1,
    }


def test_what_a_trace_cannot_hold_is_counted() -> None:
    recording = Recording(VirtualClock(JANUARY))
    nodes, pods = RecordedNodes(recording), RecordedPods(recording)
    nodes.listed([a_node("a"), a_node("b")])
    nodes.changed(a_node("a", "4"))
    assert (recording.nodes_came, recording.nodes_went) == (0, 0)
    nodes.changed(a_node("c"))
    nodes.deleted(a_node("a"))
    nodes.listed([a_node("b"), a_node("d")])  # c went unseen
    assert (recording.nodes_came, recording.nodes_went) == (2, 2)
    assert list(recording.nodes) == ["a", "b", "c", "d"]
    pods.changed(a_pod("plain", tolerations=[{"operator": "Exists"}]))
    pods.changed(a_pod("bound", node="b", nodeSelector={"pool": "a"}))
    pods.changed(a_pod("near", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}))
    assert recording.constrained == 2


def test_only_the_newest_of_the_pods_that_ended_are_kept() -> None:
    """A process that learned for months kept every pod there ever was."""
    clock = VirtualClock(JANUARY)
    recording = Recording(clock)
    pods = RecordedPods(recording)
    for name in ("b", "a", "c", "runs"):
        pods.changed(a_pod(name, node="n"))
    for name in ("b", "a", "c"):
        clock.wait(1)
        pods.deleted(a_pod(name, node="n"))
    recording.forget_ended(but=5)
    assert len(recording.pods) == 4
    recording.forget_ended(but=2)
    assert list(recording.pods) == ["uid-a", "uid-c", "uid-runs"]
    recording.forget_ended(but=0)
    assert list(recording.pods) == ["uid-runs"]
