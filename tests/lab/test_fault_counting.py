"""What is counted after a fault: each fault that a scheduler could make is seen, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import orjson

from kube.objects import a_pod
from pilotage.kube.client import Json
from pilotage.kube.podview import read_pod
from pilotage.lab.faults.audit import Bindings, read_bindings
from pilotage.lab.faults.counting import Counts, count, fits_somewhere, half_gangs, overloads
from pilotage.lab.faults.history import History
from pilotage.lab.faults.inject import FAULTS
from pilotage.lab.faults.pods import GANG_PODS, arriving, nodes_for, shapes_of
from pilotage.model.clock import VirtualClock
from pilotage.model.cluster import Node

NODES = [Node("a", 4_000, 2**33, gpu_count=2, gpu_model="X"), Node("b", 4_000, 2**33)]


def seen(
    name: str, version: int, *, node: str = "", cpu: str = "1", milli: int = 0, index: str = "", **more: str
) -> Json:
    """A pod as the API server shows it at a version."""
    annotations = {"alibabacloud.com/gpu-milli": str(milli), "alibabacloud.com/gpu-count": "1"} if milli else {}
    if index:
        annotations["alibabacloud.com/gpu-index"] = index
    labels = {"scheduling.x-k8s.io/pod-group": more["group"]} if "group" in more else {}
    found = a_pod(name, annotations=annotations, labels=labels)
    found["metadata"] |= {"uid": name, "resourceVersion": str(version)}
    found["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    if node:
        found["spec"]["nodeName"] = node
    if "phase" in more:
        found["status"] = {"phase": more["phase"]}
    return found


def history_of(*events: Json) -> History:
    history = History(VirtualClock())
    for event in events:
        history.changed(event)
    return history


def test_a_node_that_was_too_full_for_a_moment_is_found() -> None:
    history = history_of(seen("p", 1, node="a", cpu="3"), seen("q", 2, node="a", cpu="3"))
    history.deleted(seen("p", 3, node="a"))
    assert overloads(history.stays.values(), NODES) == ({"a"}, set())


def test_room_that_was_made_before_may_be_used() -> None:
    ended = seen("p", 2, node="a", cpu="3", phase="Succeeded")
    history = history_of(seen("p", 1, node="a", cpu="3"), ended, seen("q", 3, node="a", cpu="3"))
    assert overloads(history.stays.values(), NODES) == (set(), set())


def test_a_device_with_more_than_it_has_is_found() -> None:
    shares = [seen("p", 1, node="a", milli=600, index="0"), seen("q", 2, node="a", milli=600, index="0")]
    other = seen("r", 3, node="a", milli=600, index="1")
    assert overloads(history_of(*shares, other).stays.values(), NODES)[1] == {("a", 0)}


def test_devices_that_are_not_there_or_not_named_are_found() -> None:
    missing = seen("p", 1, node="a", milli=600, index="5")
    unnamed = seen("q", 2, node="a", milli=600)
    assert overloads(history_of(missing, unnamed).stays.values(), NODES)[1] == {("a", 5), ("a", -1)}


def test_half_a_gang_is_found() -> None:
    pods = [seen("p", 1, node="a", group="g"), seen("q", 2, group="g"), seen("r", 3, group="h")]
    views = [read_pod(pod) for pod in pods]
    assert half_gangs(views, {"g": 2, "h": 2}) == {"g"}
    assert half_gangs(views, {"g": 1}) == set()


def test_a_pod_without_a_node_is_lost_only_if_it_fits() -> None:
    history = history_of(seen("small", 1), seen("large", 2, cpu="5"), seen("there", 3, node="a", cpu="4"))
    assert fits_somewhere(history.waiting, history, NODES) == {"small": True, "large": False}
    found = count(history, Bindings({"there": ["a"]}), NODES, NODES, {})
    assert found == Counts(lost=1, waiting=1)
    assert not found.faultless


def test_second_bindings_are_found_in_the_audit_log(tmp_path: Path) -> None:
    def entry(uid: str, node: str, code: int) -> bytes:
        about = {"namespace": "x", "subresource": "binding", "name": uid}
        body = {"metadata": {"uid": uid}, "target": {"name": node}}
        return orjson.dumps({"objectRef": about, "responseStatus": {"code": code}, "requestObject": body}) + b"\n"

    log = tmp_path / "audit.log"
    lines = [entry("p", "a", 201), entry("q", "a", 201), entry("q", "b", 201), entry("p", "a", 409)]
    log.write_bytes(b"".join(lines) + entry("r", "a", 201)[:30])
    found = read_bindings(log, "x")
    assert (found.twice, found.conflicts) == ({"q"}, 1)
    history = history_of(seen("p", 1, node="a"), seen("q", 2, node="b"), seen("r", 3, node="a"))
    counts = count(history, found, NODES, NODES, {})
    assert (counts.bound_twice, counts.unwritten) == (1, 1)
    assert read_bindings(log, "y").nodes == {}


def test_a_pod_that_the_audit_log_has_elsewhere_counts_as_bound_twice() -> None:
    assert count(history_of(seen("p", 1, node="a")), Bindings({"p": ["b"]}), NODES, NODES, {}).bound_twice == 1


def test_what_was_missed_is_taken_from_the_next_list() -> None:
    history = history_of(seen("p", 1, node="a"), seen("q", 2))
    history.listed([seen("q", 9, node="b")])
    assert history.stays["p"].until == 9
    assert history.stays["q"].since == 9
    assert set(history.pods) == {"q"}


def test_pods_fit_the_nodes_that_are_made_for_them() -> None:
    for pods in (20, 100, 2000):
        load = arriving("x", "pilotage", pods, replaced=False)
        assert pods - GANG_PODS < load.pods <= pods
        members = [body for _, body in load.bodies if "schedulingGroup" in body["spec"]]
        assert len(members) == GANG_PODS * len(load.gangs)
        gpus = sum(shape.total_gpu_milli for shape, _ in shapes_of(pods, gangs=True)) / 1000
        assert gpus <= sum(node.gpu_count for node in nodes_for(pods, 0.9)) * 0.95
    replicas = [body["spec"]["replicas"] for _, body in arriving("x", "pilotage", 100, replaced=True).bodies]
    assert sum(replicas) == 100


def test_faults_have_names_that_namespaces_can_have() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(len(fault.name) < 40 and fault.name.replace("-", "").isalnum() for fault in FAULTS)
