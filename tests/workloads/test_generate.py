"""The shipped workload models keep the printed proportions and are the same for the same seed."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import MIB, PodShape, Workload
from pilotage.workloads import openb
from pilotage.workloads.check import check
from pilotage.workloads.generate import (
    SHARE_SIZES,
    SHIPPED,
    Mix,
    Times,
    openb_like_nodes,
    openb_like_pods,
    proportional,
    shipped,
)
from pilotage.workloads.trace import digest


def by_pod(workload: Workload) -> list[PodShape]:
    return [workload.shapes[s] for s in workload.shape_P]


def kinds(workload: Workload) -> tuple[int, ...]:
    count = Counter(shape.kind for shape in by_pod(workload))
    return count["cpu"], count["share"], count["whole"], count["multi"]


def test_nodes_are_the_printed_table() -> None:
    nodes = openb_like_nodes()
    assert (len(nodes), sum(node.gpu_count for node in nodes)) == (1213, 6212)
    assert sum(node.cpu_milli for node in nodes) == 107_018_000
    assert sum(node.memory_bytes for node in nodes) == 503_828_480 * MIB
    models = Counter(node.gpu_model for node in nodes)
    assert models == {"G2": 549, "T4": 404, "P100": 134, "V100M16": 55, "G3": 39, "V100M32": 30, "A10": 2}
    assert [node.name for node in nodes[:2]] == ["node-0000", "node-0001"]
    assert nodes[-1].name == "node-1212"


def test_any_part_of_the_node_list_has_about_its_mix() -> None:
    half = openb_like_nodes()[:606]
    assert abs(sum(node.gpu_count for node in half) - 3106) < 60
    assert openb_like_nodes() == openb_like_nodes()


@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0])
def test_nodes_scale(scale: float) -> None:
    nodes = openb_like_nodes(scale)
    assert len(nodes) == round(1213 * scale)
    assert len({node.name for node in nodes}) == len(nodes)


def test_pods_are_the_printed_mix() -> None:
    workload = openb_like_pods()
    assert kinds(workload) == (1088, 3078, 3911, 75)
    assert int(workload.gpu_milli_P.sum()) == 6_086_800
    shapes = by_pod(workload)
    assert Counter(shape.gpu_milli for shape in shapes if shape.kind == "share") == SHARE_SIZES
    assert Counter(shape.gpu_count for shape in shapes if shape.kind == "multi") == {2: 16, 4: 15, 8: 44}
    assert abs(sum(shape.cpu_milli for shape in shapes) / 85_436_012 - 1) < 0.01
    assert abs(sum(shape.memory_bytes for shape in shapes) / (303_546_211 * MIB) - 1) < 0.05


def test_times_have_the_printed_quartiles() -> None:
    workload = openb_like_pods(100_000)
    low, median, high = np.percentile(workload.duration_P, [25, 50, 75])
    assert abs(median / 540 - 1) < 0.03
    assert abs(low / 167 - 1) < 0.1
    assert abs(high / 1972 - 1) < 0.1
    assert workload.duration_P.min() >= 1
    assert workload.duration_P.max() <= 12.5e6
    assert workload.timed
    assert (np.diff(workload.arrival_P) >= 0).all()


def test_horizon_follows_the_load_unless_it_is_given() -> None:
    twice = openb_like_pods(times=Times(load=2.0)).arrival_P[-1] / openb_like_pods().arrival_P[-1]
    assert abs(twice - 0.5) < 0.01
    assert 9_000 < openb_like_pods(times=Times(horizon=10_000)).arrival_P[-1] < 10_000


def test_seeds_change_the_order_and_not_the_mix() -> None:
    one, two, again = openb_like_pods(seed=1), openb_like_pods(seed=2), openb_like_pods(seed=1)
    assert digest((), one) == digest((), again)
    assert digest((), one) != digest((), two)
    assert Counter(by_pod(one)) == Counter(by_pod(two))


def test_families_differ_as_printed() -> None:
    _, cpu250 = shipped("openb-like-cpu250")
    assert kinds(cpu250) == (2356, 3078, 3911, 75)
    _, share = shipped("openb-like-gpushare100")
    assert kinds(share) == (1088, 7064, 0, 0)
    base_nodes, base = shipped("openb-like")
    _, spec = shipped("openb-like-gpuspec33")
    assert sum(bool(shape.gpu_models) for shape in by_pod(spec)) == 2388
    assert [(s.cpu_milli, s.gpu_milli) for s in by_pod(spec)] == [(s.cpu_milli, s.gpu_milli) for s in by_pod(base)]
    _, multi = shipped("openb-like-multigpu50")
    part = sum(shape.total_gpu_milli for shape in by_pod(multi) if shape.kind == "multi") / multi.gpu_milli_P.sum()
    assert abs(part - 0.503) < 0.005
    assert len(base_nodes) == 1213


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_traces_have_no_errors(name: str) -> None:
    assert [finding for finding in check(*shipped(name)) if finding.severity != "info"] == []


def test_generated_traces_are_read_back_equal(tmp_path: Path) -> None:
    nodes, workload = shipped("openb-like-gpuspec33", seed=3)
    openb.write_nodes(tmp_path / "nodes.csv", nodes)
    openb.write_pods(tmp_path / "pods.csv", workload)
    again = openb.read_nodes(tmp_path / "nodes.csv"), openb.read_pods(tmp_path / "pods.csv")
    assert digest(*again) == digest(nodes, workload)


def test_a_million_pods_cost_no_names() -> None:
    workload = openb_like_pods(1_000_000)
    assert len(workload.names) == len(workload) == 1_000_000
    assert (workload.names[0], workload.names[-1]) == ("pod-000000", "pod-999999")
    assert list(workload.names[1:3]) == ["pod-000001", "pod-000002"]
    assert len(pickle.dumps(workload.names)) < 1000
    with pytest.raises(IndexError):
        workload.names[1_000_000]


def test_names_sort_like_numbers() -> None:
    names = list(openb_like_pods(1_100_000).names)
    assert names[-1] == "pod-1099999"
    assert names == sorted(names)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_any_mix_gives_that_many_pods(pods: int, cpu: float, share: float, multi: float, named: float) -> None:
    mix = Mix(cpu_only=cpu, share_of_gpu=share, multi_of_gpu=multi * (1 - share), model_named=named)
    workload = openb_like_pods(pods, mix=mix)
    assert len(workload) == pods
    assert abs(kinds(workload)[0] - pods * cpu) <= 1


@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=30), st.integers(0, 10**6))
def test_proportional_is_whole_and_near(weights: list[float], total: int) -> None:
    counts = proportional(weights, total)
    exact = np.array(weights) / sum(weights) * total
    assert counts.sum() == total
    assert (np.abs(counts - exact) < 1 + 1e-6).all()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'openb-like'"):
        shipped("openb_like")
    for bad in (0.0, -1.0, float("nan"), float("inf"), 1e9):
        with pytest.raises(InputError, match="scale"):
            openb_like_nodes(bad)
    with pytest.raises(InputError, match="pods"):
        openb_like_pods(0)
    with pytest.raises(InputError, match="seed"):
        openb_like_pods(seed=-1)
    with pytest.raises(InputError, match="cpu_only"):
        Mix(cpu_only=1.5)
    with pytest.raises(InputError, match="at most 1"):
        Mix(share_of_gpu=0.8, multi_of_gpu=0.4)
    with pytest.raises(InputError, match="load"):
        Times(load=0)
