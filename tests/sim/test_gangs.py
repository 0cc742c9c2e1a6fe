"""Gangs in timed runs: whole or not at all, also when nodes fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.kernels.meters import RUNNING, WAITING
from pilotage.kernels.scene import FINISHED, RUNS, WAITS
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.details import reason_text
from pilotage.sim.run import NodeEvent, Run, RunSettings

GIB = 2**30


def node(name: str, gpus: int) -> Node:
    return Node(name, 8000, 32 * GIB, gpu_count=gpus, gpu_model="A" if gpus else "")


def job(name: str, shape: PodShape, size: int, arrival: float, duration: float) -> list[Pod]:
    gang = Gang(name, size)
    return [Pod(f"{name}-{k}", shape, arrival=arrival, duration=duration, gang=gang) for k in range(size)]


def run_to_end(nodes: list[Node], pods: list[Pod], events: tuple[NodeEvent, ...] = (), policy: str = "fgd") -> Run:
    workload = Workload.of(sorted(pods, key=lambda pod: pod.arrival), timed=True)
    run = Run(nodes, workload, find_policy(policy), RunSettings(retry=True, measure=(0.0, 1.0), node_events=events))
    run.advance()
    return run


def test_two_gangs_that_fit_one_at_a_time_run_one_after_the_other() -> None:
    whole = PodShape(1000, GIB, gpu_milli=1000, gpu_count=1)
    run = run_to_end(
        [node("a", 2), node("b", 2)], job("first", whole, 3, 0.0, 10.0) + job("second", whole, 3, 1.0, 5.0)
    )
    progress = run.scene.progress
    assert progress.placed_at_P.tolist() == [0.0] * 3 + [10.0] * 3
    assert (progress.state_P == FINISHED).all()


def test_a_gang_that_can_never_fit_waits_and_keeps_nothing() -> None:
    whole = PodShape(1000, GIB, gpu_milli=1000, gpu_count=1)
    single = Pod("single", whole, arrival=1.0, duration=1.0)
    run = run_to_end([node("a", 2)], [*job("big", whole, 3, 0.0, 1.0), single])
    assert run.scene.progress.state_P.tolist() == [WAITS] * 3 + [FINISHED]
    assert (run.scene.cluster.free_NR == run.scene.cluster.capacity_NR).all()


def test_a_gang_waits_for_its_last_pod() -> None:
    shape = PodShape(1000, GIB)
    gang = Gang("late", 2)
    pods = [
        Pod("early", shape, arrival=0.0, duration=1.0, gang=gang),
        Pod("late", shape, arrival=7.0, duration=1.0, gang=gang),
    ]
    assert run_to_end([node("a", 0)], pods).scene.progress.placed_at_P.tolist() == [7.0, 7.0]


def test_a_gang_that_loses_a_node_restarts_whole() -> None:
    shape = PodShape(8000, GIB)
    events = (NodeEvent(2.0, "a", up=False), NodeEvent(5.0, "a", up=True))
    run = run_to_end([node("a", 0), node("b", 0)], job("pair", shape, 2, 0.0, 4.0), events)
    progress = run.scene.progress
    assert progress.restarts_P.tolist() == [1, 1]
    assert progress.placed_at_P.tolist() == [5.0, 5.0]
    assert progress.ended_at_P.tolist() == [9.0, 9.0]


def test_a_gang_with_a_pod_missing_from_the_trace_is_refused() -> None:
    pods = job("short", PodShape(1000, GIB), 3, 0.0, 1.0)[:2]
    with pytest.raises(InputError, match=r"gang 'short' has 2 pods in the trace; expected its size 3"):
        run_to_end([node("a", 0)], pods)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Node], list[Pod], tuple[NodeEvent, ...]]:
    nodes = [node(f"n{i}", draw(st.integers(0, 4))) for i in range(draw(st.integers(1, 4)))]
    shapes = [
        PodShape(1000 * cpu, GIB, gpu_milli=milli, gpu_count=int(milli > 0))
        for cpu in (1, 3)
        for milli in (0, 400, 1000)
    ]
    pods: list[Pod] = []
    for j in range(draw(st.integers(1, 12))):
        size, arrival = draw(st.integers(1, 4)), float(draw(st.integers(0, 20)))
        shape, duration = draw(st.sampled_from(shapes)), float(draw(st.integers(1, 8)))
        pods += (
            job(f"g{j}", shape, size, arrival, duration)
            if size > 1
            else [Pod(f"p{j}", shape, arrival=arrival, duration=duration)]
        )
    events: list[NodeEvent] = []
    for n in nodes:
        if draw(st.booleans()):
            down = draw(st.integers(0, 20))
            events += [NodeEvent(down, n.name, up=False), NodeEvent(down + draw(st.integers(1, 6)), n.name, up=True)]
    return nodes, pods, tuple(events)


@given(workloads(), st.sampled_from(["fgd", "best-fit", "random", "least-allocated"]))
@settings(max_examples=150, deadline=None)
def test_no_gang_is_ever_half_placed(given_: tuple[list[Node], list[Pod], tuple[NodeEvent, ...]], policy: str) -> None:
    nodes, pods, events = given_
    run = run_to_end(nodes, pods, events, policy)
    progress, workload = run.scene.progress, run.workload
    assert not (progress.state_P == RUNS).any()
    for g in range(len(workload.gangs)):
        members = np.flatnonzero(workload.gang_P == g)
        assert len(set(progress.state_P[members].tolist())) == 1
        if not progress.restarts_P[members].any():
            assert len(set(progress.placed_at_P[members].astype(str).tolist())) == 1
    assert (run.scene.cluster.free_NR == run.scene.cluster.capacity_NR).all()
    assert run.scene.meters.total_M[RUNNING] == 0
    assert run.scene.meters.total_M[WAITING] == (progress.state_P == WAITS).sum()


def test_a_gang_that_waits_says_which_pod_did_not_fit_and_why() -> None:
    whole = PodShape(1000, GIB, gpu_milli=1000, gpu_count=1)
    workload = Workload.of(job("big", whole, 3, 0.0, 1.0), timed=True)
    run = Run([node("a", 2)], workload, find_policy("fgd"), RunSettings(retry=True, measure=(0.0, 1.0), reasons=True))
    run.advance()
    assert [reason_text(run, pod) for pod in range(3)] == [
        "its gang did not fit whole",
        "its gang did not fit whole",
        "not enough GPU on its devices",
    ]
