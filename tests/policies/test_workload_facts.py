"""What is known of a workload before it runs."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.workload import PodShape
from pilotage.policies.api import ClusterSize, WorkloadMix
from pilotage.policies.workload_facts import PLENTY, RANGE, WorkloadFacts

SHAPES = (
    PodShape(cpu_milli=1000, memory_bytes=10),
    PodShape(cpu_milli=4000, memory_bytes=20),
    PodShape(cpu_milli=2000, memory_bytes=100, gpu_milli=500, gpu_count=1),
    PodShape(cpu_milli=8000, memory_bytes=400, gpu_milli=1000, gpu_count=1, gpu_models="A"),
    PodShape(cpu_milli=16000, memory_bytes=800, gpu_milli=1000, gpu_count=2),
)
MIX = WorkloadMix(
    SHAPES, np.array([30, 10, 4, 2, 1]), models=("A", "B"), cluster=ClusterSize(cpu_milli=96000, gpus=8, gpus_M=(2, 6))
)


def test_figures_of_a_small_mix() -> None:
    facts = WorkloadFacts.of(MIX)
    gpus = 4 * 0.5 + 2 + 2
    assert facts.cpu_per_gpu == pytest.approx((4 * 2000 + 2 * 8000 + 16000) / gpus)
    assert facts.memory_per_gpu == pytest.approx((400 + 800 + 800) / gpus)
    assert facts.shared == pytest.approx(2 / gpus)
    assert facts.multi == pytest.approx(2 / gpus)
    assert (facts.sizes, facts.pods, facts.whole) == ((500,), (4,), 4)
    asked = (30 * 1000 + 10 * 4000 + 40000) / gpus * 8 / 96000
    assert facts.scarcity == pytest.approx((asked - PLENTY) / RANGE)
    assert facts.tied_M.tolist() == pytest.approx([2 / gpus * 8 / 2, 0.0])


def test_cpu_only_pods_by_their_cpu() -> None:
    within = WorkloadFacts.of(MIX).cpu_only_within(np.array([0, 999, 1000, 3999, 4000, 10**6]))
    assert within.tolist() == [0, 0, 0.75, 0.75, 1, 1]


def test_a_mix_without_gpu_has_facts_too() -> None:
    facts = WorkloadFacts.of(WorkloadMix(SHAPES[:2], np.array([1, 1])))
    assert facts.sizes == ()
    assert facts.shared == facts.multi == 0
    assert np.isfinite([facts.cpu_per_gpu, facts.memory_per_gpu, facts.scarcity]).all()
