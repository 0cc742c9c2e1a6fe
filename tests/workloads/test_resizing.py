"""Traces made smaller and larger."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.errors import InputError
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods, shipped
from pilotage.workloads.resizing import resized
from pilotage.workloads.trace import Trace

TRACE = Trace.of("small", openb_like_nodes(0.02), openb_like_pods(60))
FACTORS = st.floats(0.01, 4.0)


@given(FACTORS, FACTORS)
def test_so_many_times_as_many_of_the_same(nodes: float, pods: float) -> None:
    made = resized(TRACE, nodes, pods)
    assert len(made.nodes) == max(1, round(len(TRACE.nodes) * nodes))
    assert len(made.workload) == max(1, round(len(TRACE.workload) * pods))
    assert len({node.name for node in made.nodes}) == len(made.nodes)
    assert len(set(made.workload.names)) == len(made.workload)
    # Every pod is there either the whole factor times, or once more.
    copies = Counter(name.partition("-copy-")[0] for name in made.workload.names)
    assert set(copies.values()) <= {int(pods), int(pods) + 1}


def test_a_resized_trace_is_the_same_each_time_and_another_than_the_first() -> None:
    assert resized(TRACE, 0.5).digest == resized(TRACE, 0.5).digest != TRACE.digest
    assert resized(TRACE, 0.5, 2.0).name == "small 0.5x nodes 2x pods"


def test_nothing_changes_at_factor_one() -> None:
    assert resized(TRACE).digest == TRACE.digest


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), 1e9])
def test_bad_factors_are_refused(factor: float) -> None:
    with pytest.raises(InputError, match="factor"):
        resized(TRACE, factor)
    with pytest.raises(InputError, match="factor"):
        resized(TRACE, 1.0, factor)


def test_gangs_are_not_torn() -> None:
    gangs = Trace.of("gangs", *shipped("openb-like-gangs", pods=200))
    with pytest.raises(InputError, match="gangs"):
        resized(gangs, 0.5, 0.5)
    assert len(resized(gangs, 0.5).workload) == len(gangs.workload)
