"""Running figures of a cluster against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from pilotage.kernels.meters import (
    AMOUNTS,
    CPU_SHARE_SQUARES,
    CPU_SHARE_SUM,
    CPU_USED,
    DEVICES_USED,
    GPU_SHARE_SQUARES,
    GPU_SHARE_SUM,
    GPU_USED,
    MEMORY_USED,
    NODES_USED,
    RUNNING,
    empty_meters,
    measure_all,
)
from pilotage.model.cluster import ClusterState, Node
from reference import fragmentation as slow
from reference.fragmentation import TypicalPod
from reference.machines import View
from reference.strategies import checked, kernel_typical, typical_lists, used_clusters


def shares(used: list[int], capacity: list[int]) -> list[float]:
    return [part / whole if whole else 0.0 for part, whole in zip(used, capacity, strict=True)]


@given(used_clusters(), typical_lists())
@checked(100)
def test_totals_are_sums_over_the_nodes(cluster: tuple[ClusterState, list[View]], typical: list[TypicalPod]) -> None:
    state, views = cluster
    devices = state.arrays.device_left_ND.shape[1]
    meters = empty_meters(len(views), kernel_typical(typical, state.models, devices))
    measure_all(state.arrays, meters)
    meters.total_M[RUNNING:] = 1, 2, 3  # pods are counted by others
    measure_all(state.arrays, meters)  # nothing is counted twice
    cpu = [view.cpu_capacity - view.cpu_free for view in views]
    gpu = [1000 * len(view.lefts) - sum(view.lefts) for view in views]
    of_cpu = shares(cpu, [view.cpu_capacity for view in views])
    of_gpu = shares(gpu, [1000 * len(view.lefts) for view in views])
    total_M = meters.total_M
    assert total_M[[GPU_USED, CPU_USED]].tolist() == [sum(gpu), sum(cpu)]
    assert total_M[MEMORY_USED] == sum(view.memory_capacity - view.memory_free for view in views)
    assert total_M[NODES_USED] == sum(a > 0 or b > 0 for a, b in zip(gpu, cpu, strict=True))
    assert total_M[DEVICES_USED] == sum(left < 1000 for view in views for left in view.lefts)
    assert total_M[CPU_SHARE_SUM] == pytest.approx(sum(of_cpu))
    assert total_M[CPU_SHARE_SQUARES] == pytest.approx(sum(share**2 for share in of_cpu))
    assert total_M[GPU_SHARE_SUM] == pytest.approx(sum(of_gpu))
    assert total_M[GPU_SHARE_SQUARES] == pytest.approx(sum(share**2 for share in of_gpu))
    amounts = [slow.amounts(view.cpu_free, view.lefts, view.model, typical) for view in views]
    assert total_M[AMOUNTS : AMOUNTS + 7].tolist() == pytest.approx(np.sum(amounts, axis=0).tolist())
    assert total_M[RUNNING:].tolist() == [1, 2, 3]


def test_a_node_without_cpu_is_not_used() -> None:
    state = ClusterState([Node("n", 0, 1, gpu_count=1, gpu_model="A")])
    meters = empty_meters(1, kernel_typical([TypicalPod(0, 500, 1, "", 1.0)], state.models, 1))
    measure_all(state.arrays, meters)
    assert meters.total_M[:AMOUNTS].tolist() == [0] * AMOUNTS
    assert meters.total_M[CPU_SHARE_SUM:].tolist() == [0] * 7
