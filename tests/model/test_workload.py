"""Pods as columns: nothing is lost on the way there and back."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.workload import FOREVER, Gang, Pod, PodShape, Workload

SHARE, WHOLE = PodShape(1000, 5, 400, 1), PodShape(2000, 6, 1000, 1)
PODS = [
    Pod("a", SHARE, arrival=1.0, duration=9.0, gang=Gang("g", 2)),
    Pod("b", WHOLE, arrival=2.0),
    Pod("c", SHARE, arrival=3.0, duration=4.0, gang=Gang("g", 2)),
]


def test_a_workload_gives_its_pods_back() -> None:
    assert list(Workload.of(PODS)) == PODS


def test_equal_shapes_and_gangs_are_stored_once() -> None:
    workload = Workload.of(PODS)
    assert workload.shapes == (SHARE, WHOLE)
    assert workload.shape_P.tolist() == [0, 1, 0]
    assert workload.gangs == (Gang("g", 2),)
    assert workload.gang_P.tolist() == [0, -1, 0]
    assert workload.gpu_milli_P.tolist() == [400, 1000, 400]


def test_a_pod_stays_forever_unless_told() -> None:
    assert Workload.of(PODS).duration_P.tolist() == [9.0, FOREVER, 4.0]


def test_rows_may_be_taken_in_any_order_and_twice() -> None:
    taken = Workload.of(PODS, timed=True).take([2, 0, 2], ["x", "y", "z"])
    assert [pod.name for pod in taken] == ["x", "y", "z"]
    assert taken.arrival_P.tolist() == [3.0, 1.0, 3.0]
    assert taken.gang_P.tolist() == [0, 0, 0]
    assert taken.timed
    assert Workload.of(PODS).take([1]).names == ["b"]


def test_no_pods_are_a_workload_too() -> None:
    empty = Workload.of([])
    assert (len(empty), list(empty), empty.gpu_milli_P.tolist()) == (0, [], [])
    assert empty.shape_P.dtype == np.int64


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        (PodShape(1, 1), "cpu"),
        (PodShape(1, 1, 999, 1), "share"),
        (PodShape(1, 1, 1000, 1), "whole"),
        (PodShape(1, 1, 1000, 2), "multi"),
        (PodShape(1, 1, 500, 2), "multi"),
    ],
)
def test_kinds_are_those_of_the_packing_literature(shape: PodShape, kind: str) -> None:
    assert shape.kind == kind


def test_a_key_names_the_namespace_too() -> None:
    assert Pod("p", SHARE, namespace="ml").key == "ml/p"
