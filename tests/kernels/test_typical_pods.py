"""Typical pods of a workload against a slow twin, and against the printed list of the default trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.api import TypicalPods, WorkloadMix
from pilotage.policies.mix import typical_pods
from pilotage.workloads.openb import read_pods
from reference import fragmentation as slow
from reference.machines import may_use_model
from reference.strategies import MODELS, checked, cpu_amounts, gpu_requests, wanted_models


@st.composite
def populations(draw: st.DrawFn) -> list[PodShape]:
    kinds = []
    for _ in range(draw(st.integers(1, 8))):
        milli, count = draw(gpu_requests())
        models = draw(wanted_models) if count else ""
        memory = draw(st.integers(0, 1))  # not part of what makes a pod typical
        kinds.append(PodShape(draw(cpu_amounts), memory, milli, count, models))
    return draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=40))


@given(
    populations(),
    st.sampled_from([95.0, 60.0, 100.0, 33.3]),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 2.0]),
)
@checked(300)
def test_typical_pods_equal_the_twin_to_the_bit(
    pods: list[PodShape], popularity: float, step: int, cpu_pods: bool, gpu_weight: float
) -> None:
    workload = Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(pods))
    mix = WorkloadMix.of(workload, MODELS, 8)
    found = typical_pods(replace(mix, typical=TypicalPods(popularity, step, cpu_pods, gpu_weight)))
    expected = slow.typical_pods(pods, popularity, step, cpu_pods, gpu_weight)
    assert found.cpu_T.tolist() == [pod.cpu for pod in expected]
    assert found.milli_T.tolist() == [pod.milli for pod in expected]
    assert found.count_T.tolist() == [pod.count for pod in expected]
    assert found.weight_T.tolist() == [pod.weight for pod in expected]
    access = [[may_use_model(pod.models, model) for model in ("", *MODELS)] for pod in expected]
    assert found.access_TM.tolist() == access


@given(populations(), st.randoms(use_true_random=False))
@checked(50)
def test_the_order_of_pods_does_not_matter(pods: list[PodShape], random: Random) -> None:
    shuffled = list(pods)
    random.shuffle(shuffled)
    first, second = (
        typical_pods(WorkloadMix.of(Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(order)), MODELS, 8))
        for order in (pods, shuffled)
    )
    for name in first._fields:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


@pytest.mark.data
def test_default_trace_has_the_printed_typical_pods(openb_data: Path) -> None:
    workload = read_pods(openb_data / "openb_pod_list_default.csv")
    typical = typical_pods(WorkloadMix.of(workload, (), 8))
    shapes = list(zip(typical.cpu_T.tolist(), typical.milli_T.tolist(), typical.count_T.tolist(), strict=True))
    assert len(shapes) == 35
    assert shapes[:6] == [
        (3152, 810, 1),
        (11300, 1000, 1),
        (11400, 1000, 1),
        (3152, 1000, 1),
        (11908, 470, 1),
        (12500, 0, 0),
    ]
    assert shapes[20:22] == [(15400, 0, 0), (6000, 460, 1)]  # 120 pods each: the larger first
    assert shapes[-1] == (4152, 810, 1)
    assert typical.weight_T[0] == 1047 / 8152 / (7766 / 8152)
