"""Pods of requests: those that ask for the same are read once, and each is itself all the same."""

from __future__ import annotations

import msgspec

from pilotage.kube.podview import PodView
from pilotage.serving import pods
from pilotage.serving.pods import LONGEST_KEPT, offered_pod
from pilotage.serving.wire import PodObject
from serving.services import a_small_pod

MILLI, COUNT, SOFT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count", "pilotage.dev/latency-soft"


def read(name: str, cpu: str = "1", containers: int = 1, annotations: dict[str, str] | None = None) -> PodView:
    pod = a_small_pod(name, cpu, **annotations or {})
    pod["spec"]["containers"] *= containers
    return offered_pod(msgspec.convert(pod, PodObject))


def kept() -> int:
    return pods._read.cache_info().currsize


def test_pods_that_ask_for_the_same_share_a_shape_and_keep_their_names() -> None:
    first, before = read("a", "3"), kept()
    second = read("b", "3")
    assert second.shape is first.shape
    assert kept() == before
    assert (first.uid, first.name, second.uid, second.name) == ("uid-a", "a", "uid-b", "b")


def test_annotations_that_count_make_another_request() -> None:
    plain, shared = read("a"), read("a", annotations={MILLI: "500", COUNT: "1"})
    patient = read("a", annotations={SOFT: "20ms"})
    assert (plain.shape.gpu_milli, shared.shape.gpu_milli) == (0, 500)
    assert (plain.rules.latency, patient.rules.latency) == ((0.0, 0.0), (0.02, 0.0))
    before = kept()
    read("a", annotations={"example.com/build": "17"})
    assert kept() == before


def test_a_long_request_is_read_and_not_kept() -> None:
    one, before = read("a"), kept()
    many = read("a", containers=LONGEST_KEPT // 20)
    assert many.shape.cpu_milli == LONGEST_KEPT // 20 * one.shape.cpu_milli
    assert kept() == before


def test_what_is_wrong_with_a_pod_is_said_each_time() -> None:
    first, second = (read(name, "one").problem for name in ("a", "b"))
    assert first == second
    assert "spec.containers" in first
