"""Recording: what was seen becomes a trace."""

from __future__ import annotations

import math

from kube.objects import a_node, a_pod
from pilotage.kube.recording import RecordedNodes, RecordedPods, Recording
from pilotage.model.clock import VirtualClock
from pilotage.model.workload import FOREVER

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
