"""A run: what it needs to start, how far it goes, and what its settings mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pilotage.kernels.feasibility import NO_RESOURCE
from pilotage.kernels.meters import CPU_USED
from pilotage.kernels.scene import FINISHED, NOT_ARRIVED, REFUSED, RUNS, WAITS
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.run import NodeEvent, Run, RunSettings

NODES = [Node("a", 4000, 100), Node("b", 4000, 100)]
FIRST_FIT = find_policy("first-fit")
FULL = PodShape(4000, 1)


def pods(*times: tuple[float, float], shape: PodShape = FULL) -> Workload:
    return Workload.of(
        (Pod(f"p{i}", shape, arrival=at, duration=lasts) for i, (at, lasts) in enumerate(times)), timed=True
    )


def finished(workload: Workload, settings: RunSettings, nodes: list[Node] | None = None) -> Run:
    run = Run(nodes or NODES, workload, FIRST_FIT, settings)
    assert run.advance() == -1
    return run


TIMED = RunSettings(retry=True, measure=(0.0, 10.0), samples=3)


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(InputError, match="the cluster has no node"):
        Run([], pods((0, 1)), FIRST_FIT)
    with pytest.raises(InputError, match="the trace has no pod"):
        Run(NODES, Workload.of([]), FIRST_FIT)


def test_pods_must_come_in_order_of_arrival() -> None:
    with pytest.raises(InputError, match="not in order of arrival"):
        Run(NODES, pods((5, 1), (0, 1)), FIRST_FIT, TIMED)


def test_an_event_of_an_unknown_node_is_refused() -> None:
    settings = RunSettings(retry=True, node_events=(NodeEvent(1.0, "zz", up=False),))
    with pytest.raises(InputError, match="unknown node 'zz'"):
        Run(NODES, pods((0, 1)), FIRST_FIT, settings)


def test_ranks_decide_which_node_is_first() -> None:
    for ranks, name in (([0, 1], "a"), ([1, 0], "b")):
        run = Run(NODES, pods((0, 1)), FIRST_FIT, rank_N=np.array(ranks))
        run.advance()
        assert run.state.nodes[int(run.scene.progress.node_P[0])].name == name


def test_without_retries_a_pod_that_does_not_fit_is_refused_for_good() -> None:
    run = finished(pods((0, 1), (1, 1), (2, 1)), RunSettings(reasons=True))
    assert run.scene.progress.state_P.tolist() == [RUNS, RUNS, REFUSED]  # arrivals only: nobody departs
    assert run.tape.reason_P.tolist() == [0, 0, NO_RESOURCE]
    assert run.tape.meter_PM[:, CPU_USED].tolist() == [4000, 8000, 8000]
    assert run.decisions == 3


def test_with_retries_a_pod_waits_until_something_is_freed() -> None:
    run = finished(pods((0, 5), (1, 7), (2, 1)), TIMED)
    progress = run.scene.progress
    assert progress.state_P.tolist() == [FINISHED] * 3
    assert progress.placed_at_P.tolist() == [0, 1, 5]
    assert progress.ended_at_P.tolist() == [5, 8, 6]
    assert run.decisions == 4  # the third one twice


def test_a_failing_node_sends_its_pods_back_and_a_recovered_one_takes_them() -> None:
    events = (NodeEvent(2.0, "a", up=False), NodeEvent(4.0, "a", up=True))
    run = finished(pods((0, 10), (0, 10)), RunSettings(retry=True, node_events=events, measure=(0.0, 20.0), samples=2))
    progress = run.scene.progress
    assert progress.restarts_P.tolist() == [1, 0]
    assert progress.placed_at_P.tolist() == [4, 0]
    assert progress.ended_at_P.tolist() == [14, 10]  # from the start again


def test_a_run_stops_at_its_end_of_time() -> None:
    run = finished(pods((0, 50), (1, 50), (2, 1), (9, 1)), RunSettings(retry=True, until=5.0))
    assert run.scene.progress.state_P.tolist() == [RUNS, RUNS, WAITS, NOT_ARRIVED]
    assert run.scene.progress.now_1[0] == 5.0


def test_means_over_time_are_weighted_by_time() -> None:
    # 4000 milli from 0 to 5, 8000 from 1 to 8, 4000 from 5: over 0..10 one node for 1 + 3, two for 4 seconds.
    run = finished(pods((0, 5), (1, 7)), TIMED)
    assert run.scene.series.integral_M[CPU_USED] == 4000 * (5 + 7)
    assert run.scene.series.grid_G.tolist() == [0, 5, 10]


def test_a_run_can_be_stopped_before_a_decision_and_carried_on() -> None:
    run = Run(NODES, pods((0, 1), (1, 1), (2, 1)), FIRST_FIT)
    assert run.advance(stop_at=1) == 1
    assert run.scene.progress.state_P.tolist() == [RUNS, NOT_ARRIVED, NOT_ARRIVED]


def test_a_pod_that_stays_forever_never_ends() -> None:
    run = finished(pods((0, math.inf), (1, 2)), TIMED)
    assert run.scene.progress.state_P.tolist() == [RUNS, FINISHED]
    assert run.scene.progress.ended_at_P.tolist() == [math.inf, 3]
