"""Consolidation never loses a pod, never moves more than its budget, and counts what it moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.meters import AMOUNTS, GPU_USED, RUNNING, WAITING
from pilotage.kernels.scene import FINISHED, REFUSED, RUNS, WAITS
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, Gang, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Policy, Scope, WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim.consolidation import (
    Consolidation,
    Moves,
    advance_with_consolidation,
    consolidate_openb,
    rounds_between,
)
from pilotage.sim.descheduling import METHODS
from pilotage.sim.run import Run, RunSettings
from reference.machines import WHOLE, Machine, allowed
from reference.strategies import NodeEvents, checked, node_lists, shapes, timed_cases

GIB = 2**30
POLICIES = ["first-fit", "random", "least-allocated", "fgd", "round-robin", "2*fgd+best-fit"]
SHARE, PAIR = PodShape(1000, 0, 600, 1), PodShape(1000, 0, 1000, 2)
methods, budgets = st.sampled_from(METHODS), st.sampled_from([0.0, 0.1, 0.5, 1.0])


def openb(nodes: list[Node], wanted: list[PodShape], policy: str, mix: WorkloadMix | None = None) -> Run:
    workload = Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(wanted))
    run = Run(nodes, workload, find_policy(policy), RunSettings(seed=3), mix=mix)
    run.advance()
    return run


def check_capacity(run: Run) -> None:
    """Every running pod is where it may be, and what is free is what the pods leave."""
    progress, workload, arrays = run.scene.progress, run.workload, run.state.arrays
    machines = [Machine(node, n) for n, node in enumerate(run.state.nodes)]
    for pod in np.flatnonzero(progress.state_P == RUNS).tolist():
        shape, mask = workload.shapes[workload.shape_P[pod]], int(progress.devices_P[pod])
        devices = tuple(d for d in range(mask.bit_length()) if (mask >> d) & 1)
        assert len(devices) == shape.gpu_count
        assert allowed(machines[progress.node_P[pod]].node, shape)
        machines[progress.node_P[pod]].running[pod] = (shape, devices)
    for n, machine in enumerate(machines):
        free = [machine.free(name) for name in run.state.resources]
        assert free == arrays.free_NR[n].tolist()
        assert min(free) >= 0
        assert machine.lefts() == arrays.device_left_ND[n, : machine.node.gpu_count].tolist()
        assert all(0 <= left <= WHOLE for left in machine.lefts())


def outcome(run: Run) -> tuple[list[int], ...]:
    progress = run.scene.progress
    return progress.state_P.tolist(), progress.node_P.tolist(), progress.devices_P.tolist()


@checked(150)
@given(node_lists(4), st.lists(shapes(most=3), min_size=1, max_size=25), st.sampled_from(POLICIES), methods, budgets)
def test_no_pod_is_lost_and_the_cluster_is_less_fragmented(
    nodes: list[Node], wanted: list[PodShape], policy: str, method: str, budget: float
) -> None:
    run = openb(nodes, wanted, policy)
    before, tape = run.scene.progress.node_P.copy(), run.tape.meter_PM.copy()
    devices = run.scene.progress.devices_P.copy()
    result = consolidate_openb(run, Consolidation(method, budget))
    progress = run.scene.progress
    placed = before >= 0
    elsewhere = placed & ((progress.node_P != before) | (progress.devices_P != devices))
    assert (progress.state_P[placed] == RUNS).all()
    assert result.moves.pods == elsewhere.sum() <= ceil(budget * placed.sum())
    assert result.moves.gpus == pytest.approx(run.workload.gpu_milli_P[elsewhere].sum() / WHOLE)
    assert result.moves.gpu_hours is None
    assert result.placed_again == (progress.state_P[~placed] == RUNS).sum()
    assert set(progress.state_P.tolist()) <= {RUNS, REFUSED}
    assert (progress.node_P >= 0).tolist() == (progress.state_P == RUNS).tolist()
    assert (run.tape.meter_PM == tape).all()
    check_capacity(run)
    if not result.placed_again:
        fall = (result.before_M - result.after_M)[AMOUNTS : AMOUNTS + 7]
        assert fall.sum() - fall[2] >= result.moves.pods - 1e-6
    again = openb(nodes, wanted, policy)
    consolidate_openb(again, Consolidation(method, budget))
    assert outcome(again) == outcome(run)


@checked(60)
@given(node_lists(4), st.lists(shapes(most=3), min_size=1, max_size=20), methods)
def test_the_meters_afterwards_are_those_of_the_cluster(nodes: list[Node], wanted: list[PodShape], method: str) -> None:
    run = openb(nodes, wanted, "least-allocated")
    result = consolidate_openb(run, Consolidation(method, 1.0))
    placed = run.scene.progress.state_P == RUNS
    assert result.after_M[GPU_USED] == run.workload.gpu_milli_P[placed].sum()
    assert result.after_M[RUNNING] == placed.sum()
    assert result.after_M[WAITING] == 0
    assert result.before_M[GPU_USED] == run.tape.meter_PM[-1, GPU_USED]


def crossed_run(policy: Policy) -> Run:
    """A share that came first took device 0 of node a; beside the whole pod that must be on b there was room for it."""
    nodes = [Node("a", 8000, GIB, gpu_count=2), Node("b", 8000, GIB, gpu_count=2)]
    fixed = PodShape(1000, 0, 1000, 1, constraints=Constraints(node_name="b"))
    workload = Workload.of([Pod("share", SHARE), Pod("fixed", fixed), Pod("pair", PAIR)])
    run = Run(nodes, workload, policy, mix=WorkloadMix.of(Workload.of([Pod("pair", PAIR)])))
    run.advance()
    assert run.scene.progress.node_P.tolist() == [0, 1, -1]
    return run


@pytest.mark.parametrize("method", ["fragOnePod", "fragMultiPod"])
def test_a_moved_pod_makes_room_for_one_that_was_refused(method: str) -> None:
    run = crossed_run(find_policy("best-fit"))
    result = consolidate_openb(run, Consolidation(method, 1.0))
    assert run.scene.progress.node_P.tolist() == [1, 1, 0]
    assert run.scene.progress.devices_P.tolist() == [0b10, 0b01, 0b11]
    assert (result.moves, result.placed_again) == (Moves(1, 0.6), 1)
    assert [result.before_M[GPU_USED], result.after_M[GPU_USED]] == [1600, 3600]


def test_without_a_better_place_everything_stays() -> None:
    run = crossed_run(find_policy("first-fit"))  # which would choose node a again
    before = outcome(run)
    assert consolidate_openb(run, Consolidation("fragMultiPod", 1.0)).moves == Moves(0, 0.0)
    assert outcome(run) == before


@dataclass(frozen=True)
class Plain:
    """Scores of another policy, asked for in plain Python."""

    policy: Policy
    name: str = "plain@1"
    features: FeatureSchema = field(default_factory=FeatureSchema)
    scope: Scope = "node"
    normalise: Normalise = "none"

    def prepare(self, mix: WorkloadMix) -> Plain:
        return replace(self, policy=self.policy.prepare(mix))

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        self.policy.score(batch, out_BN, device_BN)


@checked(25)
@given(node_lists(4), st.lists(shapes(most=3), min_size=1, max_size=15), methods)
def test_policies_in_plain_python_move_the_same_pods(nodes: list[Node], wanted: list[PodShape], method: str) -> None:
    workload = Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(wanted))
    fgd = find_policy("fgd")
    runs = [Run(nodes, workload, policy) for policy in (fgd, Plain(fgd))]
    moves = []
    for run in runs:
        run.advance()
        moves.append(consolidate_openb(run, Consolidation(method, 1.0)).moves)
    assert moves[0] == moves[1]
    assert outcome(runs[0]) == outcome(runs[1])


# Over time


@checked(100)
@given(
    timed_cases(pods=20, most=4, forever=False),
    st.sampled_from(["first-fit", "least-allocated", "fgd"]),
    methods,
    budgets,
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_moved_pods_finish_as_the_others_do(
    case: tuple[list[Node], Workload, NodeEvents], policy: str, method: str, budget: float, every: float
) -> None:
    nodes, workload, _ = case
    settings = RunSettings(retry=True, measure=(0.0, 15.0))
    plain, moved, again = (Run(nodes, workload, find_policy(policy), settings) for _ in range(3))
    plain.advance()
    how = Consolidation(method, budget, every_hours=every / 3600)
    moves = advance_with_consolidation(moved, how)
    check_capacity(moved)
    assert moved.scene.progress.now_1[0] == 15.0
    moved.advance_to(inf)
    assert advance_with_consolidation(again, how) == moves
    again.advance_to(inf)
    assert outcome(again) == outcome(moved)
    # Everything that departs gives its place back: pods that ever fit somewhere finish, moved or not.
    assert moved.scene.progress.state_P.tolist() == plain.scene.progress.state_P.tolist()
    assert set(moved.scene.progress.state_P.tolist()) <= {FINISHED, WAITS}
    assert moves.gpu_hours is not None
    assert 0 <= moves.gpu_hours <= moves.gpus * 15.0 / 3600
    assert moves.pods <= int(15 / every) * ceil(budget * len(workload))
    if budget == 0:
        assert moved.scene.progress.ended_at_P.tolist() == plain.scene.progress.ended_at_P.tolist()


def one_moved_pod(every: float) -> tuple[Run, Moves]:
    """A share spoils a pair of devices; a whole pod would be placed beside it."""
    nodes = [Node("a", 8000, GIB, gpu_count=2), Node("b", 8000, GIB, gpu_count=1)]
    pods = [Pod("x", SHARE, duration=100.0), Pod("last", PodShape(10), arrival=90.0, duration=10.0)]
    mix = WorkloadMix.of(Workload.of([Pod("pair", PAIR)]))
    settings = RunSettings(retry=True, measure=(0.0, 90.0))
    run = Run(nodes, Workload.of(pods, timed=True), find_policy("first-fit"), settings, mix=mix)
    moves = advance_with_consolidation(run, Consolidation("fragOnePod", 1.0, every_hours=every / 3600))
    run.advance_to(inf)
    return run, moves


def test_a_moved_pod_runs_for_what_is_left_of_its_time() -> None:
    run, moves = one_moved_pod(every=60.0)
    progress = run.scene.progress
    assert (moves.pods, moves.gpus) == (1, 0.6)
    assert moves.gpu_hours == pytest.approx(0.6 * 60 / 3600)
    assert progress.ended_at_P[0] == pytest.approx(100.0)  # it found a place at once
    assert progress.placed_at_P[0] == 60.0
    assert progress.restarts_P[0] == 0
    assert progress.waited_P[0] == 0.0


def test_each_round_counts_what_has_run_since_the_last_move() -> None:
    run, moves = one_moved_pod(every=30.0)
    assert moves.pods == 2  # at 30 and 60 seconds; not at 90, when the window ends
    assert moves.gpu_hours == pytest.approx(0.6 * 60 / 3600)
    assert run.scene.progress.ended_at_P[0] == pytest.approx(100.0)


def test_a_gang_that_runs_whole_is_not_taken_apart() -> None:
    nodes = [Node("a", 8000, GIB, gpu_count=2)]
    gang = Gang("g", 2)
    pods = [Pod(f"m{i}", SHARE, duration=50.0, gang=gang) for i in range(2)]
    pods.append(Pod("last", PodShape(10), arrival=40.0, duration=1.0))
    mix = WorkloadMix.of(Workload.of([Pod("pair", PAIR)]))
    settings = RunSettings(retry=True, measure=(0.0, 40.0))
    run = Run(nodes, Workload.of(pods, timed=True), find_policy("first-fit"), settings, mix=mix)
    assert advance_with_consolidation(run, Consolidation("fragMultiPod", 1.0, 0.001)) == Moves(0, 0.0, 0.0)


# What cannot be


@pytest.mark.parametrize(
    ("method", "budget", "every", "problem"),
    [
        ("fragTwoPods", 0.1, None, "unknown method 'fragTwoPods'"),
        ("cosSim", 1.5, None, r"--budget: 1\.5; expected a share of the pods, 0 to 1"),
        ("cosSim", nan, None, "--budget: nan"),
        ("cosSim", -0.1, None, r"--budget: -0\.1"),
        ("cosSim", 0.1, 0.0, "--every: 0 hours; expected more than 0 hours"),
        ("cosSim", 0.1, inf, "--every: inf hours"),
    ],
)
def test_bad_settings_are_refused(method: str, budget: float, every: float | None, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Consolidation(method, budget, every)


@pytest.mark.parametrize(
    ("every", "problem"),
    [(2.0, r"--every: 2 hours: 0\.5 rounds"), (1e-9, "1 to 100000 rounds")],
)
def test_rounds_must_fall_into_the_window(every: float, problem: str) -> None:
    pods = [Pod("x", PodShape(10), duration=1.0), Pod("y", PodShape(10), arrival=3600.0, duration=1.0)]
    settings = RunSettings(retry=True, measure=(0.0, 3600.0))
    run = Run([Node("a", 8000, GIB)], Workload.of(pods, timed=True), find_policy("first-fit"), settings)
    with pytest.raises(InputError, match=problem):
        advance_with_consolidation(run, Consolidation("cosSim", 0.1, every))


def test_there_are_ten_rounds_unless_told() -> None:
    assert rounds_between(100.0, 210.0, None) == pytest.approx([110.0 + 10 * k for k in range(10)])
    assert rounds_between(0.0, 3600.0, 0.4) == pytest.approx([1440.0, 2880.0])
    assert rounds_between(0.0, 3600.0, 0.5) == pytest.approx([1800.0])  # none at the very end


def test_a_run_without_time_has_one_round() -> None:
    run = openb([Node("a", 8000, GIB)], [PodShape(10)], "first-fit")
    with pytest.raises(InputError, match="--every: no time passes"):
        consolidate_openb(run, Consolidation("cosSim", 0.1, 1.0))


def test_moves_add_up() -> None:
    assert Moves().and_then(Moves(1, 2.0)) == Moves(1, 2.0, None)
    total = Moves(1, 2.0, 0.5).and_then(Moves(2, 1.0, 0.25))
    assert total == Moves(3, 3.0, 0.75)
    assert total.gpu_hours is not None
    assert isfinite(total.gpu_hours)
