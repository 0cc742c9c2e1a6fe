"""Shipped traces with a number in their name, and the even-load workloads among them."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.resources import parse_quantity
from pilotage.workloads.balance import MIXED, UNIFORM
from pilotage.workloads.check import check
from pilotage.workloads.families import FAMILIES, expanded, trace_by_name
from pilotage.workloads.generate import SHARE_SIZES
from pilotage.workloads.trace import load_trace
from pilotage.workloads.variety import varied_trace


def test_the_balance_cluster_is_that_of_its_name() -> None:
    nodes, workload = trace_by_name("balance-10")
    assert len(nodes) == 10
    assert {(n.cpu_milli, n.memory_bytes, n.pods, n.gpu_count) for n in nodes} == {(64_000, 256 * 2**30, 110, 0)}
    assert len(workload) == 150
    (shape,) = workload.shapes
    assert (shape.cpu_milli, shape.memory_bytes) == (1000, 2 * 2**30)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_both_kinds_of_balance_ask_for_the_same(count: int) -> None:
    asked = []
    for name in (f"balance-{count}", f"balance-mixed-{count}"):
        _, workload = trace_by_name(name)
        pods = [workload.shapes[s] for s in workload.shape_P]
        asked.append((len(pods), sum(p.cpu_milli for p in pods), sum(p.memory_bytes for p in pods)))
    assert asked[0] == asked[1]
    assert sum(MIXED.values()) == sum(UNIFORM.values())


def test_mixed_pods_are_not_in_proportion() -> None:
    ratios = [shape.memory_bytes / shape.cpu_milli for shape in MIXED]
    assert max(ratios) > 5 * min(ratios)


def test_a_varied_trace_by_name_is_that_of_its_seed() -> None:
    trace = load_trace(name="varied-17")
    assert (trace.name, trace.digest) == ("varied-17", varied_trace(17).digest)
    shares = {shape.gpu_milli for shape in trace.workload.shapes if 0 < shape.gpu_milli < 1000}
    assert shares
    assert not shares & set(SHARE_SIZES)


@pytest.mark.parametrize("name", ["varied-0", "varied-19", "balance-3", "balance-mixed-1000"])
def test_every_pod_of_a_family_fits_somewhere(name: str) -> None:
    assert [finding for finding in check(*trace_by_name(name)) if finding.severity == "error"] == []


@pytest.mark.parametrize("seed", range(20))
def test_varied_traces_run_out_of_gpus_first(seed: int) -> None:
    """When all GPUs are asked for, CPU and memory are not."""
    trace = varied_trace(seed)
    shapes = [trace.workload.shapes[s] for s in trace.workload.shape_P]
    gpus = sum(node.gpu_count for node in trace.nodes) / sum(shape.total_gpu_milli for shape in shapes) * 1000
    for asked in ("cpu_milli", "memory_bytes"):
        there = sum(getattr(node, asked) for node in trace.nodes)
        assert sum(getattr(shape, asked) for shape in shapes) * gpus < there, asked


def test_a_range_of_numbers_is_that_many_names() -> None:
    assert expanded("varied-8..11") == ("varied-8", "varied-9", "varied-10", "varied-11")
    assert expanded("balance-mixed-3..3") == ("balance-mixed-3",)
    for other in ("varied-8", "openb-like", "openb-like-1..3", "nonsense"):
        assert expanded(other) == (other,)


@pytest.mark.parametrize("name", ["varied-9..3", "varied-0..5000"])
def test_ranges_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"FIRST\.\.LAST"):
        expanded(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("varied", "did you mean"),
        ("varied-x", "unknown trace"),
        ("unvaried-3", "unknown trace"),
        ("varied-1..3", "several traces"),
        ("balance-0", "a number from 1"),
        ("balance-mixed-1000000", "a number from 1"),
    ],
)
def test_bad_names_are_refused(name: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        trace_by_name(name)


def test_nothing_but_the_number_says_what_it_is() -> None:
    for seed, pods, scale in ((3, None, 1.0), (0, 10, 1.0), (0, None, 0.5)):
        with pytest.raises(InputError, match="fixed by its number"):
            trace_by_name("varied-3", seed, pods, scale)
    with pytest.raises(UnknownNameError, match="openb-like"):
        trace_by_name("openb_like")


def test_families_say_what_they_are() -> None:
    assert all(family.meaning for family in FAMILIES.values())
    assert parse_quantity("256Gi") == trace_by_name("balance-1")[0][0].memory_bytes
    assert np.isinf(trace_by_name("balance-1")[1].duration_P).all()
