"""Pods that become gangs: how many, of what, and what stays as it was."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pilotage.model.errors import InputError
from pilotage.workloads.generate import Times, openb_like_pods, shipped
from pilotage.workloads.grouping import Gangs, grouped
from pilotage.workloads.trace import digest


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_part_of_the_pods_with_one_whole_gpu_are_in_gangs(part: float) -> None:
    alone = openb_like_pods(2000, seed=1, times=Times(horizon=5000.0))
    workload = grouped(alone, Gangs(part), seed=1)
    whole = [pod for pod in workload if pod.shape.kind == "whole"]
    in_gangs = [pod for pod in workload if pod.gang is not None]
    assert all(pod.shape.kind == "whole" for pod in in_gangs)
    assert abs(len(in_gangs) - part * len(whole)) <= 2 * len(workload.shapes)
    assert Counter(pod.shape for pod in workload) == Counter(pod.shape for pod in alone)
    assert list(workload.names) == list(alone.names)
    assert (np.diff(workload.arrival_P) >= 0).all()


def test_the_pods_of_a_gang_are_alike_and_side_by_side() -> None:
    workload = grouped(openb_like_pods(2000), Gangs(0.8, (2, 3, 7)), seed=5)
    sizes = Counter(gang.size for gang in workload.gangs)
    assert set(sizes) == {2, 3, 7}
    assert min(sizes.values()) > sum(sizes.values()) / 6
    for g, gang in enumerate(workload.gangs):
        rows = np.flatnonzero(workload.gang_P == g)
        assert len(rows) == gang.size == rows[-1] - rows[0] + 1
        for column in (workload.shape_P, workload.arrival_P, workload.duration_P):
            assert len(set(column[rows].tolist())) == 1


def test_the_seed_decides() -> None:
    one, again, other = (shipped("openb-like-gangs", seed, pods=500) for seed in (1, 1, 2))
    assert digest(*one) == digest(*again) != digest(*other)
    nodes, workload = shipped("openb-like-gangs")
    assert (len(nodes), len(workload), workload.timed) == (303, 12000, True)
    assert all(node.zone and node.rack for node in nodes)
    assert {gang.size for gang in workload.gangs} == {2, 4, 8, 16}


def test_bad_numbers_are_named() -> None:
    with pytest.raises(InputError, match="part: bad value"):
        Gangs(1.5)
    for sizes in ((), (1, 2)):
        with pytest.raises(InputError, match="sizes: bad sizes"):
            Gangs(0.5, sizes)
