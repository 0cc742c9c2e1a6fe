"""Whole runs against naive simulations: the published protocol, and time with departures, retries and failures.

Every choice is compared, and with it the choosing by blocks, by scan and by rescoring, and the cache of scores.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.choosing import BY_MAXIMA, BY_SCAN, empty_cache, weighted_total
from pilotage.kernels.episode import run_episode
from pilotage.kernels.meters import AMOUNTS, DEVICES_USED, GPU_USED, NODES_USED
from pilotage.kernels.scene import POD_STATES
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.heuristics import HEURISTICS, Heuristic
from pilotage.policies.weighted import WeightedSum
from pilotage.sim.openb_tables import openb_tables
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.arrivals import openb_arrival
from pilotage.workloads.openb import read_nodes, read_pods
from reference import fragmentation as slow
from reference.choices import SlowPolicy
from reference.openb_run import openb_run, tables
from reference.scores import RULES, normalised
from reference.strategies import NodeEvents, checked, gang_cases, gang_lists, node_lists, shapes, timed_cases
from reference.timed_run import SlowRun
from reference.uncompiled import Uncompiled

ALL = {policy.name: policy for policy in HEURISTICS}
MINMAX_SUM = (("best-fit@1", "fgd@1", "least-allocated@1"), (1.0, 2.0, 0.5))
PLAIN_SUM = (("gpu-packing@1", "balanced-allocation@1"), (0.75, 1.0))
RANDOM_SUM = (("random@1", "best-fit@1"), (10.0, 1.0))
NEAR_SUM = (("fgd@1", "gang-locality@1"), (1.0, 0.2))
FAR_SUM = (("best-fit@1", "gang-spread@1"), (1.0, 3.0))
SUMS = [MINMAX_SUM, PLAIN_SUM, RANDOM_SUM, NEAR_SUM, FAR_SUM]
GANG_SUMS = [(("gang-locality@1",), (1.0,)), (("gang-spread@1",), (1.0,)), NEAR_SUM, FAR_SUM]


def weighted(names: tuple[str, ...], weights: tuple[float, ...]) -> WeightedSum:
    return WeightedSum(tuple(ALL[name] for name in names), weights)


def typical_of(workload: Workload) -> list[slow.TypicalPod]:
    return slow.typical_pods([pod.shape for pod in workload])


def node_events(events: NodeEvents) -> tuple[NodeEvent, ...]:
    return tuple(NodeEvent(*event) for event in events)


def assert_same_course(run: Run, twin: SlowRun) -> None:
    progress = run.scene.progress
    for p, entry in enumerate(twin.book):
        assert POD_STATES[progress.state_P[p]] == entry.state
        assert progress.node_P[p] == entry.node
        assert progress.devices_P[p] == entry.devices
        assert progress.restarts_P[p] == entry.restarts
        assert progress.ended_at_P[p] == entry.ends_at
        placed_at = float(progress.placed_at_P[p])
        assert (None if math.isnan(placed_at) else placed_at) == entry.placed_at
    assert progress.now_1[0] == twin.now
    assert run.decisions == twin.decisions
    cluster = run.scene.cluster
    for n, machine in enumerate(twin.machines):
        assert cluster.alive_N[n] == machine.alive
        assert cluster.free_NR[n].tolist() == [machine.free(resource) for resource in run.state.resources]
        assert cluster.device_left_ND[n, : machine.node.gpu_count].tolist() == machine.lefts()


# Over time


@pytest.mark.parametrize("name", sorted(RULES))
@given(timed_cases(gangs=True), st.integers(0, 2**31), st.sampled_from([math.inf, 9.0, 4.5]))
@checked(40)
def test_timed_run_equals_the_naive_simulation(
    name: str, case: tuple[list[Node], Workload, NodeEvents], seed: int, until: float
) -> None:
    nodes, workload, events = case
    settings = RunSettings(retry=True, seed=seed, until=until, node_events=node_events(events))
    run = Run(nodes, workload, ALL[name], settings)
    assert run.advance() == -1
    policy = SlowPolicy((name,), typical_of(workload))
    twin = SlowRun(nodes, list(workload), policy, seed=seed, until=until, node_events=events)
    twin.run()
    assert_same_course(run, twin)


@pytest.mark.parametrize("name", ["first-fit@1", "fgd@1", "random@1", "gang-locality@1"])
@given(timed_cases(gangs=True), st.integers(0, 2**31))
@checked(30)
def test_run_without_retries_and_with_failures_equals_the_naive_simulation(
    name: str, case: tuple[list[Node], Workload, NodeEvents], seed: int
) -> None:
    """Arrivals are then numbered 0, 1, ... and nothing departs; the pods of a gang are placed one by one."""
    nodes, workload, events = case
    run = Run(nodes, workload, ALL[name], RunSettings(seed=seed, node_events=node_events(events)))
    run.advance()
    pods = [Pod(pod.name, pod.shape, arrival=float(p), gang=pod.gang) for p, pod in enumerate(workload)]
    policy = SlowPolicy((name,), typical_of(workload))
    twin = SlowRun(nodes, pods, policy, seed=seed, retry=False, node_events=events)
    twin.run()
    assert_same_course(run, twin)


@pytest.mark.parametrize("names_and_weights", SUMS, ids=lambda parts: "+".join(parts[0]))
@given(timed_cases(gangs=True), st.integers(0, 2**31))
@checked(30)
def test_weighted_sum_equals_the_naive_simulation(
    names_and_weights: tuple[tuple[str, ...], tuple[float, ...]],
    case: tuple[list[Node], Workload, NodeEvents],
    seed: int,
) -> None:
    nodes, workload, events = case
    names, weights = names_and_weights
    settings = RunSettings(retry=True, seed=seed, node_events=node_events(events))
    run = Run(nodes, workload, weighted(names, weights), settings)
    run.advance()
    twin = SlowRun(nodes, list(workload), SlowPolicy(names, typical_of(workload), weights), seed, node_events=events)
    twin.run()
    assert_same_course(run, twin)


@pytest.mark.parametrize(
    "name", ["round-robin@1", "best-fit@1", "fgd@1", "random@1", "gang-locality@1", "gang-spread@1"]
)
@given(timed_cases(gangs=True), st.integers(0, 2**31))
@checked(25)
def test_policy_in_plain_python_takes_the_same_course(
    name: str, case: tuple[list[Node], Workload, NodeEvents], seed: int
) -> None:
    nodes, workload, events = case
    settings = RunSettings(retry=True, seed=seed, node_events=node_events(events))
    run = Run(nodes, workload, Uncompiled(ALL[name]), settings)
    assert run.rules is None
    run.advance()
    twin = SlowRun(nodes, list(workload), SlowPolicy((name,), typical_of(workload)), seed, node_events=events)
    twin.run()
    assert_same_course(run, twin)


@pytest.mark.parametrize("retry", [True, False], ids=["whole gangs", "one by one"])
@pytest.mark.parametrize("names_and_weights", GANG_SUMS, ids=lambda parts: "+".join(parts[0]))
@given(gang_cases(), st.integers(0, 2**31))
@checked(30)
def test_gangs_gather_and_scatter_as_in_the_naive_simulation(
    names_and_weights: tuple[tuple[str, ...], tuple[float, ...]],
    retry: bool,
    case: tuple[list[Node], Workload, NodeEvents],
    seed: int,
) -> None:
    nodes, workload, events = case
    names, weights = names_and_weights
    settings = RunSettings(retry=retry, timed=True, seed=seed, node_events=node_events(events))
    twin = SlowRun(
        nodes, list(workload), SlowPolicy(names, typical_of(workload), weights), seed, retry, node_events=events
    )
    twin.run()
    for policy in (weighted(names, weights), Uncompiled(weighted(names, weights))):
        run = Run(nodes, workload, policy, settings)
        run.advance()
        assert_same_course(run, twin)


def test_waiting_pods_are_tried_by_priority_then_arrival() -> None:
    """One node for one pod at a time; every pod has a shape of its own, so that only the order decides."""
    nodes = [Node("n", 100_000, 10**9, pods=1)]
    priorities = [0, 1, 0, 2, 1, 0, 2]
    workload = Workload.of(
        Pod(f"p{i}", PodShape(100 + 7 * i % 5, priority=priority), arrival=float(i) / 10, duration=10.0)
        for i, priority in enumerate(priorities)
    )
    run = Run(nodes, workload, ALL["first-fit@1"], RunSettings(retry=True))
    run.advance()
    assert np.argsort(run.scene.progress.placed_at_P).tolist() == [0, 3, 6, 1, 4, 2, 5]


@pytest.mark.parametrize("until", [math.inf, 50.0, 70.0, 90.0])
def test_pods_that_came_last_may_leave_first(until: float) -> None:
    """All run at once: the list of departures is full, and each new one goes to its front."""
    nodes = [Node("n", 100_000, 10**9)]
    pods = [Pod(f"p{i}", PodShape(1), arrival=float(i), duration=100.0 - 20 * i) for i in range(4)]
    run = Run(nodes, Workload.of(pods), ALL["first-fit@1"], RunSettings(retry=True, until=until))
    run.advance()
    ends = [100.0, 81.0, 62.0, 43.0]
    assert cpu_in_use(run) == sum(end > until for end in ends)
    twin = SlowRun(nodes, pods, SlowPolicy(("first-fit@1",), typical_of(Workload.of(pods))), seed=0, until=until)
    twin.run()
    assert_same_course(run, twin)


def cpu_in_use(run: Run) -> int:
    cluster = run.scene.cluster
    return int((cluster.capacity_NR - cluster.free_NR)[:, 0].sum())


def test_evicted_pods_wait_in_order_of_arrival_and_start_again() -> None:
    nodes = [Node("a", 1000, 10**9, pods=2), Node("b", 1000, 10**9, pods=1)]
    workload = Workload.of(Pod(f"p{i}", PodShape(1), arrival=float(i), duration=20.0) for i in range(5))
    events = (NodeEvent(6.0, "a", False), NodeEvent(30.0, "a", True))
    run = Run(nodes, workload, ALL["first-fit@1"], RunSettings(retry=True, node_events=events))
    run.advance()
    progress = run.scene.progress
    assert progress.restarts_P.tolist() == [1, 1, 0, 0, 0]
    assert progress.placed_at_P.tolist() == [22.0, 30.0, 2.0, 30.0, 42.0]
    assert progress.node_P.tolist() == [1, 0, 1, 0, 1]


# Ways of choosing


def test_normalised_scores_are_rounded_down_to_whole_numbers() -> None:
    total_N = np.zeros(4)
    raw_KN = np.array([[0.0, 1.0, 3.0, -np.inf], [7.0, 7.0, 7.0, -np.inf]])
    weighted_total(raw_KN, np.array([2.0, 5.0]), np.array([True, True]), total_N)
    assert total_N.tolist() == [0.0, 66.0, 200.0, -np.inf]


SCORES = st.one_of(st.integers(0, 100).map(float), st.floats(-5, 5))


@given(st.integers(1, 3), st.integers(1, 8), st.data())
@checked(150)
def test_weighted_total_normalises_to_whole_numbers_over_the_candidates(
    rules: int, nodes: int, data: st.DataObject
) -> None:
    rows = st.lists(SCORES, min_size=nodes, max_size=nodes)
    raw_KN = np.array(data.draw(st.lists(rows, min_size=rules, max_size=rules)))
    candidates = data.draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes))
    minmax = data.draw(st.lists(st.booleans(), min_size=rules, max_size=rules))
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=rules, max_size=rules))
    raw_KN[:, ~np.array(candidates)] = -np.inf
    total_N = np.full(nodes, np.nan)
    weighted_total(raw_KN, np.array(weights), np.array(minmax), total_N)
    chosen = [n for n in range(nodes) if candidates[n]]
    expected = [0.0] * len(chosen)
    for k in range(rules):
        raw = [float(raw_KN[k, n]) for n in chosen]
        values = normalised(raw) if minmax[k] and raw else raw
        expected = [total + weights[k] * value for total, value in zip(expected, values, strict=True)]
    assert [total_N[n] for n in chosen] == expected
    assert all(total_N[n] == -np.inf for n in range(nodes) if not candidates[n])


def with_mode(run: Run, mode: int, cache_bytes: int) -> None:
    """Carries the run out with another way of choosing and a cache of this size."""
    assert run.rules is not None
    rules = run.rules._replace(mode=mode)
    cache = empty_cache(
        run.scene.cache.kind_N, run.scene.cluster.device_left_ND.shape[1], len(run.workload.shapes), rules, cache_bytes
    )
    scene = run.scene._replace(cache=cache)
    run_episode(scene, rules, run.device_rule, run.settings.seed, run.tape, -1)


@st.composite
def many_shapes(draw: st.DrawFn) -> tuple[list[Node], Workload]:
    """More shapes than the smallest cache has rows, each asked for again and again."""
    nodes = draw(node_lists())
    kinds = draw(st.lists(shapes(most=3), min_size=6, max_size=12, unique=True))
    order = draw(st.lists(st.sampled_from(kinds), min_size=10, max_size=60))
    durations = st.sampled_from([1.0, 2.0, 4.0, 7.0])
    mates = draw(gang_lists(len(order)))
    return nodes, Workload.of(
        [
            Pod(f"p{i}", shape, arrival=float(i // 2), duration=draw(durations), gang=mates[i])
            for i, shape in enumerate(order)
        ]
    )


@pytest.mark.parametrize(
    ("names_and_weights", "modes"),
    [
        ((("fgd@1",), (1.0,)), (BY_MAXIMA, BY_SCAN)),
        ((("best-fit@1",), (1.0,)), (BY_MAXIMA, BY_SCAN)),
        ((("round-robin@1",), (1.0,)), (BY_MAXIMA, BY_SCAN)),
        (NEAR_SUM, (BY_SCAN,)),
        (PLAIN_SUM, (BY_MAXIMA, BY_SCAN)),
        (MINMAX_SUM, (BY_SCAN,)),
    ],
    ids=["fgd", "best-fit", "round-robin", "near sum", "plain sum", "minmax sum"],
)
@given(many_shapes())
@checked(30)
def test_blocks_scan_and_rescoring_choose_the_same_node_with_any_cache(
    names_and_weights: tuple[tuple[str, ...], tuple[float, ...]],
    modes: tuple[int, ...],
    case: tuple[list[Node], Workload],
) -> None:
    nodes, workload = case
    settings = RunSettings(retry=True)
    usual = Run(nodes, workload, weighted(*names_and_weights), settings)
    usual.advance()
    for mode in modes:
        for cache_bytes in (1, 1 << 20):
            run = Run(nodes, workload, weighted(*names_and_weights), settings)
            with_mode(run, mode, cache_bytes)
            for found, expected in zip(run.scene.progress, usual.scene.progress, strict=True):
                assert np.array_equal(found, expected, equal_nan=True)


def test_the_smallest_cache_has_fewer_rows_than_shapes_and_is_bounded() -> None:
    policy = ALL["fgd@1"]
    assert isinstance(policy, Heuristic)
    assert len(empty_cache(np.arange(8), 2, 100, policy.rules, cache_bytes=1).shape_C) == 4
    assert len(empty_cache(np.arange(8), 2, 100, policy.rules, cache_bytes=8 * 8 * 10).shape_C) == 10
    assert len(empty_cache(np.arange(8), 2, 3, policy.rules).shape_C) == 3


@given(st.integers(9, 90), st.lists(st.integers(0, 2**30), min_size=30, max_size=80))
@checked(40)
def test_blocks_of_many_nodes_find_the_first_of_the_highest(count: int, numbers: list[int]) -> None:
    """More nodes than one block holds."""
    nodes = [Node(f"n{n}", 1000 * (1 + numbers[n % len(numbers)] % 4), 10**9, gpu_count=n % 3) for n in range(count)]
    kinds = [PodShape(500), PodShape(1000), PodShape(500, gpu_milli=500, gpu_count=1), PodShape(2000)]
    workload = Workload.of(
        Pod(f"p{i}", kinds[number % 4], arrival=float(i), duration=1.0 + number % 50)
        for i, number in enumerate(numbers)
    )
    for name in ("best-fit@1", "most-allocated@1", "fgd@1"):
        run = Run(nodes, workload, ALL[name], RunSettings(retry=True))
        run.advance()
        twin = SlowRun(nodes, list(workload), SlowPolicy((name,), typical_of(workload)))
        twin.run()
        assert_same_course(run, twin)


# The published protocol


def assert_same_openb_run(nodes: list[Node], workload: Workload, name: str, seed: int, load: float) -> None:
    """`nodes` in the order of their ranks."""
    total = sum(node.gpu_count for node in nodes)
    run = Run(nodes, workload, ALL[name], RunSettings(seed=seed))
    run.advance()
    events = openb_run(nodes, list(workload), SlowPolicy((name,), typical_of(workload)), seed)
    assert run.scene.progress.node_P.tolist() == [event.node for event in events]
    assert run.scene.progress.devices_P.tolist() == [event.devices for event in events]
    assert run.tape.arrived_P.tolist() == [event.arrived_milli for event in events]
    meter_PM = run.tape.meter_PM
    assert meter_PM[:, GPU_USED].tolist() == [event.used_milli for event in events]
    assert meter_PM[:, NODES_USED].tolist() == [event.used_nodes for event in events]
    assert meter_PM[:, DEVICES_USED].tolist() == [event.used_devices for event in events]
    amounts = np.array([event.amounts for event in events])
    assert np.allclose(meter_PM[:, AMOUNTS : AMOUNTS + 7], amounts, rtol=0, atol=1e-6)
    if total > 0:
        found = openb_tables(run.tape, total, load)
        last = len(found.allocation_L) - 1
        columns = (found.allocation_L, found.fragmentation_L, found.fragmentation_ratio_L)
        for column, expected in zip(columns, tables(events, total, last), strict=True):
            assert [None if np.isnan(value) else value for value in column.tolist()] == expected


@pytest.mark.parametrize("name", sorted(RULES))
@given(
    node_lists(),
    st.lists(shapes(["n0", "n1", "n2"]), min_size=1, max_size=8),
    st.data(),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 1.3]),
)
@checked(25)
def test_openb_run_equals_the_naive_one_event_by_event(
    name: str, nodes: list[Node], kinds: list[PodShape], data: st.DataObject, seed: int, load: float
) -> None:
    order = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=25))
    mates = data.draw(gang_lists(len(order)))
    pods = [Pod(f"p{i}", shape, gang=gang) for i, (shape, gang) in enumerate(zip(order, mates, strict=True))]
    workload = Workload.of(pods)
    assert_same_openb_run(nodes, workload, name, seed, load)


@pytest.mark.data
@pytest.mark.parametrize("name", ["fgd@1", "best-fit@1", "dot-product@1", "gpu-packing@1", "gpu-clustering@1"])
def test_part_of_the_published_trace_equals_the_naive_run(openb_data: Path, name: str) -> None:
    nodes = read_nodes(openb_data / "openb_node_list_gpu_node.csv")[::61]
    pods = read_pods(openb_data / "openb_pod_list_gpuspec33.csv").take(np.arange(0, 8152, 70))
    arrival = openb_arrival(pods, nodes, 1.3, 42)
    ranked = [nodes[n] for n in np.argsort(arrival.rank_N)]
    assert_same_openb_run(ranked, arrival.workload, name, 42, 1.3)


# Devices that a pod must get


def test_preset_devices_are_given_where_all_of_them_have_room() -> None:
    nodes = [
        Node("full", 9000, 10**9, gpu_count=2),
        Node("small", 9000, 10**9, gpu_count=1),
        Node("b", 9000, 10**9, gpu_count=4),
    ]
    taken = PodShape(gpu_milli=600, gpu_count=1, constraints=Constraints(node_name="full"))
    second = PodShape(gpu_milli=500, gpu_count=1, gpu_devices=0b10)
    pair = PodShape(gpu_milli=1000, gpu_count=2, gpu_devices=0b1010)
    workload = Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate([taken, second, pair, second, second, pair]))
    for policy in (ALL["best-fit@1"], Uncompiled(ALL["best-fit@1"]), ALL["fgd@1"], Uncompiled(ALL["fgd@1"])):
        run = Run(nodes, workload, policy, RunSettings())
        run.advance()
        assert run.scene.progress.devices_P.tolist() == [0b01, 0b10, 0b1010, 0b10, 0, 0]
        assert run.scene.progress.node_P.tolist() == [0, 0, 2, 0, -1, -1]
