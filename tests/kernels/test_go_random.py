"""Go's math/rand and the published order of arrivals: printed vectors, a slow twin, the stored orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilotage.kernels import gorand
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.workloads.arrivals import openb_arrival
from pilotage.workloads.openb import read_nodes, read_pods
from reference.go_random import GoRandom, cooked, published_arrival
from reference.strategies import checked, node_lists, shapes

PRINTED = {
    42: [3440579354231278675, 608747136543856411, 5571782338101878760, 1926012586526624009],
    43: [251513763977812265, 4758643001895455243, 4454543167247874465, 3302356113444946822],
    51: [3893522058333705853, 6164845938608892732, 3083795589842122694, 6360690084447539553],
}
SEEDS = st.one_of(st.integers(-(2**33), 2**33), st.sampled_from([0, 1, -1, 2**31 - 1, 1 - 2**31, 2**31, 2**62]))

BOUNDS = st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 64, 2**30, 2**30 + 1]))


def kernel_source(seed: int) -> gorand.GoSource:
    return gorand.go_source(seed, np.array(cooked(), np.uint64))


@pytest.mark.parametrize("seed", PRINTED)
def test_first_draws_are_those_printed_by_go(seed: int) -> None:
    source, twin = kernel_source(seed), GoRandom(seed)
    assert [int(gorand.int63(source)) for _ in range(4)] == PRINTED[seed]
    assert [twin.int63() for _ in range(4)] == PRINTED[seed]


@given(SEEDS)
@checked(30)
def test_draws_equal_the_twin_past_a_whole_turn_of_the_state(seed: int) -> None:
    source, twin = kernel_source(seed), GoRandom(seed)
    for _ in range(1300):
        assert gorand.int63(source) == twin.int63()


@given(
    SEEDS, st.lists(st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 64, 2**30, 2**30 + 1])), max_size=20)
)
@example(1, [3 << 29] * 20)  # a bound for which every fourth draw is thrown away
@checked(60)
def test_bounded_draws_equal_the_twin_and_stay_in_step(seed: int, bounds: list[int]) -> None:
    source, twin = kernel_source(seed), GoRandom(seed)
    for bound in bounds:
        assert gorand.intn(source, bound) == twin.intn(bound)
        assert gorand.below32(source, bound) == twin.lemire(bound)
    assert gorand.int63(source) == twin.int63()


@given(SEEDS, st.integers(0, 300))
@checked(40)
def test_shuffle_and_perm_equal_the_twin(seed: int, size: int) -> None:
    source, twin = kernel_source(seed), GoRandom(seed)
    values, listed = np.arange(size), list(range(size))
    gorand.shuffle(source, values)
    twin.shuffle(listed)
    assert values.tolist() == listed
    gorand.permutation(source, values)
    assert values.tolist() == twin.perm(size)
    assert sorted(values.tolist()) == list(range(size))


@given(
    node_lists(most=5),
    st.lists(shapes(), min_size=1, max_size=25),
    st.sampled_from([0.0, 0.2, 0.5, 1.0, 1.3, 3.0]),
    SEEDS,
)
@checked(100)
def test_arrival_order_tuning_and_ranks_equal_the_twin(
    nodes: list[Node], asked: list[PodShape], load: float, seed: int
) -> None:
    asked = [*asked, PodShape(1000, gpu_milli=1000, gpu_count=1)]
    pods = [(f"pod-{i}", shape) for i, shape in enumerate(asked)]  # pod-10 comes before pod-9
    nodes = [*nodes, Node("a-first", 1000, 0, gpu_count=2)]
    expected, ranks = published_arrival(pods, nodes, load, seed)
    workload = Workload.of(Pod(*pod) for pod in pods)
    if not expected:
        with pytest.raises(InputError, match="leaves none"):
            openb_arrival(workload, tuple(nodes), load, seed)
        return
    arrival = openb_arrival(workload, tuple(nodes), load, seed)
    assert [(pod.name, pod.shape) for pod in arrival.workload] == expected
    assert dict(zip([node.name for node in nodes], arrival.rank_N.tolist(), strict=True)) == ranks


# The published traces


@pytest.mark.data
def test_default_trace_seed_42_arrives_as_printed(openb_data: Path) -> None:
    nodes = read_nodes(openb_data / "openb_node_list_gpu_node.csv")
    arrival = openb_arrival(read_pods(openb_data / "openb_pod_list_default.csv"), nodes, 1.3, 42)
    rows = [int(name.removeprefix("openb-pod-").split("-")[0]) for name in arrival.workload.names]
    assert rows[:10] == [255, 1685, 6784, 4463, 602, 1564, 3882, 7257, 6545, 1541]
    assert rows[8149:8152] == [1701, 4923, 538]
    assert rows[8152:8162] == [3888, 5689, 2936, 788, 5416, 104, 5457, 3884, 409, 5943]
    assert len(rows) == 10866
    assert int(arrival.workload.gpu_milli_P.sum()) == 8_075_080
    assert arrival.rank_N[:10].tolist() == [601, 815, 450, 13, 731, 1143, 966, 834, 181, 1060]
    assert arrival.rank_N[-1] == 968


@pytest.mark.data
@pytest.mark.parametrize(
    "trace",
    ["default", "cpu100", "cpu250", "gpushare40", "gpushare100", "gpuspec10", "gpuspec33", "multigpu20", "multigpu50"],
)
def test_every_stored_order_is_reproduced(openb_data: Path, trace: str) -> None:
    nodes = read_nodes(openb_data / "openb_node_list_gpu_node.csv")
    pods = read_pods(openb_data / f"openb_pod_list_{trace}.csv")
    names = sorted(pods.names)
    by_name = {name: i for i, name in enumerate(sorted(node.name for node in nodes))}
    with np.load(openb_data / "orders" / f"{trace}.npz") as stored:
        for seed in range(42, 47):
            arrival = openb_arrival(pods, nodes, 1.3, seed)
            arrived = [name.split("-tuned-")[0] for name in arrival.workload.names]
            assert arrived == [names[i] for i in stored[f"order_{seed}"]]
            ranks = stored[f"node_rank_{seed}"]
            assert arrival.rank_N.tolist() == [ranks[by_name[node.name]] for node in nodes]


@pytest.mark.data
def test_tuning_twin_agrees_on_the_default_trace(openb_data: Path) -> None:
    nodes = read_nodes(openb_data / "openb_node_list_gpu_node.csv")
    for trace in ("default", "multigpu50"):  # up and down
        pods = read_pods(openb_data / f"openb_pod_list_{trace}.csv")
        expected, ranks = published_arrival([(pod.name, pod.shape) for pod in pods], nodes, 1.3, 45)
        arrival = openb_arrival(pods, nodes, 1.3, 45)
        assert list(arrival.workload.names) == [name for name, _ in expected]
        assert arrival.rank_N.tolist() == [ranks[node.name] for node in nodes]
