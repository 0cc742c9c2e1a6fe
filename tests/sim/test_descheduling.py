"""Who is moved: the same pods as by the slow twin, never one of a whole gang, and nothing is changed by asking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.scene import RUNS
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim.descheduling import METHODS, budget_of, victims
from pilotage.sim.run import Placed, Run, RunSettings
from reference.descheduling import cos_sim, frag_multi_pod, frag_one_pod
from reference.fragmentation import typical_pods
from reference.machines import Machine
from reference.strategies import NodeEvents, checked, node_lists, shapes, timed_cases

GIB = 2**30
WHOLE = PodShape(1000, 0, 1000, 1)


def finished(nodes: list[Node], wanted: list[PodShape], policy: str = "first-fit") -> Run:
    run = Run(nodes, Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(wanted)), find_policy(policy))
    run.advance()
    return run


def machines_of(run: Run) -> list[Machine]:
    """The run's nodes as the twins know them."""
    progress, workload = run.scene.progress, run.workload
    machines = [Machine(node, n) for n, node in enumerate(run.state.nodes)]
    for pod in np.flatnonzero(progress.state_P == RUNS).tolist():
        mask = int(progress.devices_P[pod])
        devices = tuple(d for d in range(mask.bit_length()) if (mask >> d) & 1)
        machines[progress.node_P[pod]].running[pod] = (workload.shapes[workload.shape_P[pod]], devices)
    return machines


def by_the_twin(run: Run, method: str, budget: int, movable: set[int]) -> list[int]:
    machines = machines_of(run)
    typical = typical_pods([run.workload.shapes[s] for s in run.workload.shape_P])
    if method == "cosSim":
        return cos_sim(machines, movable, budget)
    return (frag_one_pod if method == "fragOnePod" else frag_multi_pod)(machines, movable, budget, typical)


@checked(250)
@given(
    node_lists(5),
    st.lists(shapes(most=3), min_size=1, max_size=25),
    st.sampled_from(["first-fit", "random", "least-allocated", "fgd"]),
    st.sampled_from(METHODS),
    st.integers(0, 12),
)
def test_the_victims_are_those_of_the_slow_twin(
    nodes: list[Node], wanted: list[PodShape], policy: str, method: str, budget: int
) -> None:
    run = finished(nodes, wanted, policy)
    running = set(np.flatnonzero(run.scene.progress.state_P == RUNS).tolist())
    assert victims(run, method, budget) == by_the_twin(run, method, budget, running)


@checked(100)
@given(timed_cases(pods=20, most=4), st.sampled_from(METHODS), st.floats(0, 20), st.integers(0, 12))
def test_a_run_may_be_in_the_middle(
    case: tuple[list[Node], Workload, NodeEvents], method: str, moment: float, budget: int
) -> None:
    nodes, workload, _ = case
    run = Run(nodes, workload, find_policy("least-allocated"), RunSettings(retry=True))
    run.advance_to(moment)
    state_P, free_NR = run.scene.progress.state_P.copy(), run.scene.cluster.free_NR.copy()
    left_ND = run.scene.cluster.device_left_ND.copy()
    chosen = victims(run, method, budget)
    assert chosen == by_the_twin(run, method, budget, set(np.flatnonzero(state_P == RUNS).tolist()))
    assert len(chosen) == len(set(chosen)) <= budget
    assert (run.scene.progress.state_P == state_P).all()
    assert (run.scene.cluster.free_NR == free_NR).all()
    assert (run.scene.cluster.device_left_ND == left_ND).all()


def test_the_pod_that_splits_the_devices_goes() -> None:
    """Pods want two whole devices: a share alone on the second device makes both useless."""
    pair = PodShape(1000, 0, 1000, 2)
    share = PodShape(1000, 0, 100, 1)
    run = finished([Node("a", 8000, GIB, gpu_count=2)], [share, *[pair] * 20])
    assert victims(run, "fragOnePod", 5) == [0]
    assert victims(run, "fragMultiPod", 5) == [0]
    assert victims(run, "fragMultiPod", 0) == []


def test_several_pods_of_a_node_only_by_the_method_that_says_so() -> None:
    """Pods want pairs of devices; each of two shares spoils a device of its own."""
    wanted = WorkloadMix.of(Workload.of([Pod("pair", PodShape(1000, 0, 1000, 2))]))
    shares = Workload.of(Pod(f"p{i}", PodShape(1000, 0, 600, 1)) for i in range(2))
    run = Run([Node("a", 8000, GIB, gpu_count=4)], shares, find_policy("first-fit"), mix=wanted)
    run.advance()
    assert victims(run, "fragOnePod", 5) == [0]
    assert victims(run, "fragMultiPod", 5) == [0, 1]
    assert victims(run, "fragMultiPod", 1) == [0]


def test_cosine_looks_at_nodes_short_of_cpu_with_much_gpu_left() -> None:
    hungry, modest = PodShape(7000, 0, 100, 1), PodShape(500, 0, 900, 1)
    run = finished([Node("a", 8000, GIB, gpu_count=3)], [modest, hungry])
    assert victims(run, "cosSim", 5) == [1]  # the node would be left with CPU and GPU; the pod is nearly all CPU
    rich = finished([Node("a", 80000, GIB, gpu_count=3)], [modest, hungry])
    assert victims(rich, "cosSim", 5) == []


def test_pods_of_whole_gangs_stay() -> None:
    nodes = [Node("a", 8000, GIB, gpu_count=2)]
    share = PodShape(1000, 0, 100, 1)
    members = [Pod(f"m{i}", s, gang=Gang("g", 2), duration=100.0) for i, s in enumerate((share, PodShape(1000)))]
    later = [Pod(f"p{i}", PodShape(1000, 0, 1000, 2), arrival=5.0, duration=1.0) for i in range(10)]
    workload = Workload.of([*members, *later], timed=True)
    first_fit = find_policy("first-fit")
    whole = Run(nodes, workload, first_fit, RunSettings(retry=True))
    single = Run(nodes, workload, first_fit, RunSettings(timed=True))
    for run in (whole, single):
        run.advance_to(1.0)
        assert (run.scene.progress.state_P[:2] == RUNS).all()
    assert victims(whole, "fragMultiPod", 5) == []
    assert victims(single, "fragMultiPod", 5) == [0]


def test_pods_placed_before_the_run_are_there_but_stay() -> None:
    share, pair = PodShape(1000, 0, 100, 1), PodShape(1000, 0, 1000, 2)
    workload = Workload.of([Pod("p", PodShape(500)), *(Pod(f"q{i}", pair) for i in range(9))])
    run = Run([Node("a", 8000, GIB, gpu_count=2)], workload, find_policy("first-fit"), placed=[Placed(share, "a", 1)])
    run.advance()
    assert all(victims(run, method, 5) == [] for method in METHODS)


def test_budgets_are_rounded_up() -> None:
    assert [budget_of(0.1, 10), budget_of(0.1, 11), budget_of(0.0, 10), budget_of(1.0, 7)] == [1, 2, 0, 7]


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    run = finished([Node("a", 8000, GIB, gpu_count=1)], [WHOLE])
    with pytest.raises(InputError, match="unknown method of descheduling 'fragTwoPod'; did you mean 'fragOnePod'"):
        victims(run, "fragTwoPod", 1)
