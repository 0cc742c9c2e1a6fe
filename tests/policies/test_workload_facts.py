"""What is known of a workload before it runs."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.workload import PodShape
from pilotage.policies.api import ClusterSize, WorkloadMix
from pilotage.policies.workload_facts import MOST_SCARCE, PLENTY, RANGE, UNCROWDED, WorkloadFacts

SHAPES = (
    PodShape(cpu_milli=1000, memory_bytes=10),
    PodShape(cpu_milli=4000, memory_bytes=20),
    PodShape(cpu_milli=2000, memory_bytes=100, gpu_milli=500, gpu_count=1),
    PodShape(cpu_milli=8000, memory_bytes=400, gpu_milli=1000, gpu_count=1, gpu_models="A"),
    PodShape(cpu_milli=16000, memory_bytes=800, gpu_milli=1000, gpu_count=2),
)
CLUSTER = ClusterSize(cpu_milli=144_000, memory_bytes=3500, gpus=8, gpus_M=(2, 6), nodes_D=(1, 2, 0, 2))
MIX = WorkloadMix(SHAPES, np.array([30, 10, 4, 2, 1]), models=("A", "B"), cluster=CLUSTER)


def test_figures_of_a_small_mix() -> None:
    facts = WorkloadFacts.of(MIX)
    gpus = 4 * 0.5 + 2 + 2
    assert facts.cpu_per_gpu == pytest.approx((4 * 2000 + 2 * 8000 + 16000) / gpus)
    assert facts.memory_per_gpu == pytest.approx((400 + 800 + 800) / gpus)
    assert facts.shared == pytest.approx(2 / gpus)
    assert facts.multi == pytest.approx(2 / gpus)
    assert (facts.sizes, facts.pods, facts.whole) == ((500,), (4,), 4)
    asked = (30 * 1000 + 10 * 4000 + 40000) / gpus * 8 / 144_000
    assert facts.scarcity == pytest.approx((asked - PLENTY) / RANGE)
    memory = (30 * 10 + 10 * 20 + 2000) / gpus * 8 / 3500
    assert facts.memory_scarcity == pytest.approx((memory - PLENTY) / RANGE)
    assert (facts.several, facts.several_gpu) == ((2,), (1.0,))
    used = 2 / gpus * 8 / 4  # two nodes with three devices have room for two each
    assert facts.crowding == pytest.approx((used - UNCROWDED) / (1 - UNCROWDED))
    assert facts.cpu_only == pytest.approx(70000 / 110000)
    assert facts.cpu_per_node == pytest.approx(144_000 / 5)
    assert facts.tied_M.tolist() == pytest.approx([2 / gpus * 8 / 2, 0.0])


def test_cpu_only_pods_by_their_cpu() -> None:
    within = WorkloadFacts.of(MIX).cpu_only_within(np.array([0, 999, 1000, 3999, 4000, 10**6]))
    assert within.tolist() == [0, 0, 0.75, 0.75, 1, 1]


def test_chunks_of_cpu_for_pods_without_gpu() -> None:
    """Thirty cores are asked for in pods of one, forty in pods of four; 40 / 6 cores go with a GPU."""
    fits, over = WorkloadFacts.of(MIX).cpu_chunks(np.array([500, 1000, 3500, 4000, 5500]))
    assert fits.tolist() == pytest.approx([0, 3 / 7, 3 / 7, 1, 1])
    cores = [0.5, 4 / 7, 3 / 7 * 0.5 + 4 / 7 * 3.5, 0, 3 / 7 * 0.5 + 4 / 7 * 1.5]
    assert over.tolist() == pytest.approx([c * 6 / 40 for c in cores])


def test_pods_with_gpu_by_their_cpu_weigh_what_they_ask_for() -> None:
    """2, 2 and 2 GPUs, with 2, 8 and 16 cores a pod; 4, 8 and 8 cores a GPU, the mean is 40 / 6."""
    facts = WorkloadFacts.of(MIX)
    assert facts.gpu_within(np.array([1999, 2000, 8000, 16000])).tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    enough, used = facts.served_by_cpu(np.array([0.0, 0.6, 1.2]))
    assert enough.tolist() == pytest.approx([0, 1 / 3, 1])
    assert used.tolist() == pytest.approx([0, (1 + 0.5 + 0.5) / 3, 1])


def test_scarcity_beyond_sense_counts_as_the_most() -> None:
    small = WorkloadMix(SHAPES, MIX.count_S, cluster=ClusterSize(cpu_milli=1000, memory_bytes=10, gpus=8))
    facts = WorkloadFacts.of(small)
    assert facts.scarcity == facts.memory_scarcity == MOST_SCARCE


def test_a_mix_without_gpu_has_facts_too() -> None:
    facts = WorkloadFacts.of(WorkloadMix(SHAPES[:2], np.array([1, 1])))
    assert facts.sizes == ()
    assert facts.shared == facts.multi == 0
    assert np.isfinite([facts.cpu_per_gpu, facts.memory_per_gpu, facts.scarcity]).all()
