"""What holds in every run, whatever the policy, the workload and the failures of nodes."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.meters import RUNNING, WAITING, WAITING_GPU
from pilotage.kernels.scene import DEPARTURES, FINISHED, NOT_ARRIVED, POD_STATES, REFUSED, RUNS, WAITING_PODS, WAITS
from pilotage.model.cluster import Node
from pilotage.model.workload import BoolArray, FloatArray, IntArray, PodShape, Workload
from pilotage.policies.api import Policy
from pilotage.policies.heuristics import HEURISTICS
from pilotage.sim.run import NodeEvent, Run, RunSettings
from reference.machines import fits
from reference.strategies import NodeEvents, checked, timed_cases

Case = tuple[list[Node], Workload, NodeEvents]
every_policy = pytest.mark.parametrize("policy", HEURISTICS, ids=lambda policy: policy.name)


def settings_of(events: NodeEvents, retry: bool, seed: int = 0, until: float = math.inf) -> RunSettings:
    node_events = tuple(NodeEvent(*event) for event in events)
    return RunSettings(retry=retry, seed=seed, until=until, node_events=node_events, measure=(0.0, 20.0), samples=5)


def advanced(case: Case, policy: Policy, retry: bool, seed: int = 0, until: float = math.inf, stop_at: int = -1) -> Run:
    nodes, workload, events = case
    run = Run(nodes, workload, policy, settings_of(events, retry, seed, until))
    run.advance(stop_at)
    return run


def shape_of(run: Run, p: int) -> PodShape:
    return run.workload.shapes[int(run.workload.shape_P[p])]


def running(run: Run) -> list[int]:
    return np.flatnonzero(run.scene.progress.state_P == RUNS).tolist()


def waiting_list(run: Run, s: int) -> list[int]:
    progress, pods = run.scene.progress, []
    p = int(progress.first_S[s])
    while p >= 0:
        pods.append(p)
        p = int(progress.next_P[p])
    return pods


def assert_resources_are_conserved(run: Run) -> None:
    """What is free is capacity minus what the running pods ask for, nowhere negative, on live nodes only."""
    state, progress, cluster = run.state, run.scene.progress, run.scene.cluster
    used = np.zeros_like(cluster.free_NR)
    left: list[list[int]] = [[1000] * node.gpu_count for node in state.nodes]
    kinds: list[Counter[int]] = [Counter() for _ in state.nodes]
    scored = np.zeros_like(cluster.scored_used_N2)
    for p in running(run):
        shape, n, devices = shape_of(run, p), int(progress.node_P[p]), int(progress.devices_P[p])
        asked = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes, "pods": 1, **dict(shape.extended)}
        used[n] += [asked.get(resource, 0) for resource in state.resources]
        scored[n] += [shape.cpu_milli or 100, shape.memory_bytes or 200 * 1024 * 1024]
        assert cluster.alive_N[n]
        assert devices.bit_count() == shape.gpu_count
        assert devices >> state.nodes[n].gpu_count == 0
        for d in range(state.nodes[n].gpu_count):
            left[n][d] -= shape.gpu_milli * (devices >> d & 1)
        if shape.gpu_count:
            kinds[n][0 if shape.gpu_count == 1 and shape.gpu_milli < 1000 else shape.gpu_count] += 1
    assert (cluster.capacity_NR - used >= 0).all()
    assert np.array_equal(cluster.free_NR, cluster.capacity_NR - used)
    assert np.array_equal(cluster.scored_used_N2, scored)
    for n, lefts in enumerate(left):
        assert min(lefts, default=0) >= 0
        assert cluster.device_left_ND[n].tolist() == lefts + [0] * (cluster.device_left_ND.shape[1] - len(lefts))
        assert cluster.kind_count_NT[n].tolist() == [kinds[n][t] for t in range(cluster.kind_count_NT.shape[1])]


def assert_each_pod_is_in_one_state(run: Run) -> None:
    progress = run.scene.progress
    listed = [p for s in range(len(run.workload.shapes)) for p in waiting_list(run, s)]
    assert len(listed) == len(set(listed)) == progress.counter_X[WAITING_PODS]
    for s in range(len(run.workload.shapes)):
        pods = waiting_list(run, s)
        assert pods == sorted(pods)
        assert all(run.workload.shape_P[p] == s for p in pods)
    leaving = progress.heap_pod_H[: progress.counter_X[DEPARTURES]].tolist()
    assert len(leaving) == len(set(leaving))
    for p, state in enumerate(progress.state_P.tolist()):
        assert state in range(len(POD_STATES))
        assert (state == WAITS) == (p in listed)
        departs = state == RUNS and progress.ended_at_P[p] < math.inf
        assert departs == (p in leaving)
        assert (state in (RUNS, FINISHED)) == (progress.node_P[p] >= 0)
        assert (state in (RUNS, FINISHED)) == (not math.isnan(progress.placed_at_P[p]))
    total_M = run.scene.meters.total_M
    assert total_M[RUNNING] == len(running(run))
    assert total_M[WAITING] == len(listed)
    assert total_M[WAITING_GPU] == sum(shape_of(run, p).total_gpu_milli for p in listed)


def free_of(run: Run, n: int) -> dict[str, int]:
    return dict(zip(run.state.resources, run.scene.cluster.free_NR[n].tolist(), strict=True))


def fits_somewhere(run: Run, shape: PodShape) -> bool:
    cluster = run.scene.cluster
    for n, node in enumerate(run.state.nodes):
        lefts = cluster.device_left_ND[n, : node.gpu_count].tolist()
        if fits(node, bool(cluster.alive_N[n]), free_of(run, n), lefts, shape):
            return True
    return False


def outcome(run: Run) -> dict[str, bytes]:
    """Everything that a run leaves behind, as bytes."""
    parts: dict[str, IntArray | FloatArray | BoolArray] = {
        **run.scene.progress._asdict(),
        **run.scene.series._asdict(),
        **run.scene.cluster._asdict(),
        **run.tape._asdict(),
        "total_M": run.scene.meters.total_M,
    }
    return {name: np.asarray(value).tobytes() for name, value in parts.items()}


@every_policy
@given(timed_cases(pods=20), st.booleans(), st.integers(0, 99))
@checked(8)
def test_capacity_is_kept_and_resources_are_conserved_at_every_stop(
    policy: Policy, case: Case, retry: bool, seed: int
) -> None:
    for stop_at in range(-1, len(case[1]), 2):
        run = advanced(case, policy, retry, seed, stop_at=stop_at)
        assert_resources_are_conserved(run)


@every_policy
@given(timed_cases(pods=20), st.integers(0, 99))
@checked(8)
def test_each_pod_is_in_exactly_one_state_at_every_moment(policy: Policy, case: Case, seed: int) -> None:
    for until in (0.0, 2.0, 5.5, 9.0, math.inf):
        run = advanced(case, policy, True, seed, until)
        assert_each_pod_is_in_one_state(run)
        assert_resources_are_conserved(run)
        assert REFUSED not in run.scene.progress.state_P  # with retries nothing is lost
        arrived = run.workload.arrival_P <= until
        assert ((run.scene.progress.state_P != NOT_ARRIVED) == arrived).all()


@every_policy
@given(timed_cases(forever=False, recover=True), st.integers(0, 99))
@checked(20)
def test_when_everything_has_departed_the_cluster_is_exactly_empty(policy: Policy, case: Case, seed: int) -> None:
    run = advanced(case, policy, True, seed)
    progress, cluster = run.scene.progress, run.scene.cluster
    assert cluster.alive_N.all()
    assert np.array_equal(cluster.free_NR, cluster.capacity_NR)
    assert not cluster.scored_used_N2.any()
    assert not cluster.kind_count_NT.any()
    assert np.array_equal(cluster.device_left_ND.sum(axis=1), 1000 * cluster.device_count_N)
    assert set(progress.state_P.tolist()) <= {FINISHED, WAITS}
    for p in np.flatnonzero(progress.state_P == WAITS).tolist():
        assert not fits_somewhere(run, shape_of(run, p))  # not even on the empty cluster


@every_policy
@given(timed_cases(), st.booleans(), st.integers(0, 2**31))
@checked(15)
def test_same_inputs_and_seed_give_the_same_bytes(policy: Policy, case: Case, retry: bool, seed: int) -> None:
    assert outcome(advanced(case, policy, retry, seed)) == outcome(advanced(case, policy, retry, seed))


@every_policy
@given(timed_cases(), st.booleans(), st.integers(0, 99), st.data())
@checked(15)
def test_the_order_in_which_nodes_are_given_does_not_matter(
    policy: Policy, case: Case, retry: bool, seed: int, data: st.DataObject
) -> None:
    nodes, workload, events = case
    rank_N = np.array(data.draw(st.permutations(range(len(nodes)))), np.int64)
    given_order = np.array(data.draw(st.permutations(range(len(nodes)))), np.int64)
    chosen = []
    for order in (np.arange(len(nodes)), given_order):
        listed = [nodes[n] for n in order]
        run = Run(listed, workload, policy, settings_of(events, retry, seed), rank_N=rank_N[order])
        run.advance()
        names = [run.state.nodes[n].name if n >= 0 else "" for n in run.scene.progress.node_P.tolist()]
        chosen.append((names, run.scene.progress.devices_P.tolist(), run.scene.progress.placed_at_P.tobytes()))
    assert chosen[0] == chosen[1]


@every_policy
@given(timed_cases(pods=25), st.integers(0, 99))
@checked(10)
def test_a_refused_pod_fits_nowhere_and_a_placed_one_did_fit(policy: Policy, case: Case, seed: int) -> None:
    nodes, workload, _ = case
    quiet: Case = (nodes, workload, [])
    states = advanced(quiet, policy, False, seed).scene.progress.state_P.tolist()
    for p, state in enumerate(states):
        before = advanced(quiet, policy, False, seed, stop_at=p)
        assert fits_somewhere(before, shape_of(before, p)) == (state == RUNS)
        assert state in (RUNS, REFUSED)


@every_policy
@given(timed_cases(), st.integers(0, 99), st.sampled_from([3.0, 8.0, math.inf]))
@checked(15)
def test_no_waiting_pod_would_fit(policy: Policy, case: Case, seed: int, until: float) -> None:
    """Every room that was freed has been offered."""
    run = advanced(case, policy, True, seed, until)
    for p in np.flatnonzero(run.scene.progress.state_P == WAITS).tolist():
        assert not fits_somewhere(run, shape_of(run, p))


@every_policy
@given(timed_cases(forever=False), st.integers(0, 99))
@checked(15)
def test_a_pod_runs_for_its_duration_and_never_before_it_arrives(policy: Policy, case: Case, seed: int) -> None:
    run = advanced(case, policy, True, seed)
    progress, workload = run.scene.progress, run.workload
    placed = progress.node_P >= 0
    assert (progress.placed_at_P[placed] >= workload.arrival_P[placed]).all()
    assert (progress.ended_at_P[placed] == progress.placed_at_P[placed] + workload.duration_P[placed]).all()
    assert (progress.restarts_P >= 0).all()
    if not case[2]:
        assert not progress.restarts_P.any()
