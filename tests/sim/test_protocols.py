"""The two kinds of run, and what is drawn for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.protocols import Timing, failures, mix_of, openb_run, run_openb, run_timed, timed_run
from pilotage.sim.results import timed_result
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace

SCALE = 0.02
TRACE = Trace.of("small", openb_like_nodes(SCALE), openb_like_pods(150, times=Times(nodes_scale=SCALE)))
UNTIMED = Trace.of("untimed", TRACE.nodes, replace(TRACE.workload, timed=False))
FGD = find_policy("fgd")


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    first, second, other = (run_openb(TRACE, FGD, seed, 1.3) for seed in (5, 5, 6))
    assert first.figures() == second.figures()
    assert first.figures() | {"seed": 6} != other.figures()


def test_the_mix_is_that_of_the_trace_not_of_the_tuned_pods() -> None:
    run = openb_run(TRACE, FGD, 5, 1.3)
    assert len(run.workload) > len(TRACE.workload)
    assert run.mix.total == mix_of(TRACE).total == 150
    assert run.mix.models == run.state.models


def test_no_load_leaves_the_pods_as_they_are_in_another_order() -> None:
    run = openb_run(TRACE, FGD, 5, 0.0)
    assert sorted(run.workload.names) == sorted(TRACE.workload.names)
    assert list(run.workload.names) != list(TRACE.workload.names)


def test_failures_are_those_of_the_pods_that_were_refused() -> None:
    result = run_openb(TRACE, FGD, 5, 1.3)
    parts = (
        result.failed_cpu_pods,
        result.failed_share_pods,
        result.failed_whole_gpu_pods,
        result.failed_multi_gpu_pods,
    )
    assert result.failed_pods == sum(parts) > 0
    assert result.lost_at is not None
    assert len(result.lost_at[0]) == result.failed_pods - result.failed_cpu_pods


def test_pods_without_times_need_a_load_to_run_over_time() -> None:
    with pytest.raises(InputError, match="'untimed' has no times"):
        timed_run(UNTIMED, FGD, 1, Timing())


def test_pods_that_all_come_at_once_cannot_be_measured() -> None:
    at_once = replace(TRACE.workload, arrival_P=np.zeros(150))
    with pytest.raises(InputError, match="at once"):
        timed_run(Trace.of("once", TRACE.nodes, at_once), FGD, 1, Timing())


def test_the_warm_up_is_not_measured() -> None:
    run = timed_run(TRACE, FGD, 1, Timing(warm_up=0.25))
    first, last = TRACE.workload.arrival_P.min(), TRACE.workload.arrival_P.max()
    assert run.settings.measure == (first + 0.25 * (last - first), last)


def test_more_load_is_more_allocation_and_more_waiting() -> None:
    low, high = (run_timed(TRACE, FGD, 1, Timing(load=load, arrivals=400)) for load in (0.3, 1.5))
    assert low.gpu_allocation_percent < high.gpu_allocation_percent
    assert low.mean_wait is not None
    assert high.mean_wait is not None
    assert low.mean_wait < high.mean_wait


def test_the_allocation_of_a_light_load_is_about_what_is_offered() -> None:
    results = [run_timed(TRACE, FGD, seed, Timing(load=0.3, arrivals=1500)).gpu_allocation_percent for seed in range(8)]
    assert 20 < np.mean(results) < 40


def test_nodes_fail_and_recover_in_turn() -> None:
    events = failures(TRACE, Timing(mtbf_hours=2.0, mttr_hours=1.0), seed=3, span=(0.0, 100 * 3600.0))
    for node in TRACE.nodes:
        own = [event for event in events if event.node == node.name]
        assert [event.up for event in own] == [bool(i % 2) for i in range(len(own))]
        assert [event.time for event in own] == sorted(event.time for event in own)
    down = [event for event in events if not event.up]
    assert len(down) == pytest.approx(100 / 3 * len(TRACE.nodes), rel=0.2)
    assert all(event.time <= 100 * 3600 for event in down)


def test_failures_of_a_node_do_not_depend_on_the_others() -> None:
    timing = Timing(mtbf_hours=2.0)
    fewer = Trace.of("fewer", TRACE.nodes[:3], TRACE.workload)
    whole = [e for e in failures(TRACE, timing, 3, (0.0, 1e5)) if e.node in {n.name for n in fewer.nodes}]
    assert whole == list(failures(fewer, timing, 3, (0.0, 1e5)))
    assert failures(TRACE, timing, 4, (0.0, 1e5)) != failures(TRACE, timing, 3, (0.0, 1e5))
    assert failures(TRACE, Timing(), 3, (0.0, 1e5)) == ()


def test_failures_of_a_trace_in_calendar_time_start_with_its_first_pod() -> None:
    start = 1.7e9
    events = failures(TRACE, Timing(mtbf_hours=24.0), 3, (start, start + 3600.0))
    assert all(start <= event.time for event in events)


def test_more_failures_than_a_run_can_hold_are_refused() -> None:
    with pytest.raises(InputError, match=r"--mtbf: 0\.001 hours"):
        failures(TRACE, Timing(mtbf_hours=0.001, mttr_hours=0.001), 3, (0.0, 1e12))


def test_time_spent_running_before_a_failure_is_no_waiting_time() -> None:
    nodes = (Node("a", 1000, 2**30), Node("b", 1000, 2**30))
    pods = [
        Pod("long", PodShape(1000, 2**20), arrival=0.0, duration=50.0),
        Pod("last", PodShape(10, 2**20), arrival=100.0, duration=1.0),
    ]
    settings = RunSettings(retry=True, measure=(0.0, 100.0), node_events=(NodeEvent(30.0, "a", up=False),))
    run = Run(nodes, Workload.of(pods, timed=True), find_policy("first-fit"), settings)
    run.advance()
    result = timed_result(run, "t", "first-fit@1", 0, 0.0)
    assert run.scene.progress.placed_at_P[0] == 30.0
    assert (result.restarts, result.mean_wait, result.gpu_weighted_wait) == (1, 0.0, 0.0)
