"""Every rule's score, and the fragmentation behind FGD, against slow twins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilotage.kernels import fragmentation, scoring
from pilotage.kernels.batches import score_batch
from pilotage.kernels.features import (
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    GANG_RACK_ROOM,
    LOAD,
    NODE_FEATURES,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
    RACK,
    ZONE,
    encode_all,
)
from pilotage.kernels.features import random_unit as quick_random_unit
from pilotage.kernels.prices import standing_columns
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.deciding import best_totals
from pilotage.policies.encode import encode_nodes, pod_features
from pilotage.policies.heuristics import HEURISTICS, Heuristic
from reference import choices
from reference import fragmentation as slow
from reference.fragmentation import TypicalPod
from reference.machines import MIB, View, devices_fit, distance
from reference.scores import RULES, fgd, random_unit
from reference.strategies import (
    COMPILED,
    MODELS,
    checked,
    gpu_requests,
    kernel_typical,
    shapes,
    typical_lists,
    used_clusters,
)

ALL = {policy.name: policy for policy in HEURISTICS if isinstance(policy, Heuristic)}
LEFTS = st.lists(st.one_of(st.sampled_from([0, 200, 250, 500, 700, 1000, 1000]), st.integers(0, 1000)), max_size=8)


def features(state: ClusterState) -> FloatArray:
    return encode_nodes(state, np.arange(len(state.nodes)))


def pod_row(shape: PodShape, draw: float = 0.0) -> FloatArray:
    return np.array([pod_features(shape, draw)], np.float64)


@dataclass(frozen=True)
class Surroundings:
    """What the gang columns say: numbers of the nodes of its placed pods, pods left, and the room in racks."""

    mates: list[int]
    left: int
    rooms: list[int]


surroundings = st.one_of(
    st.just(Surroundings([], 0, [0])),
    st.builds(
        Surroundings,
        st.lists(st.integers(0, 7), max_size=6),
        st.integers(1, 6),
        st.lists(st.integers(0, 8), min_size=1, max_size=8),
    ),
)


def show_gang(
    state: ClusterState, views: list[View], around: Surroundings, pod_PF: FloatArray, node_NF: FloatArray
) -> None:
    """Fills the columns for both sides."""
    mates = [mate % len(views) for mate in around.mates]
    pod_PF[0, POD_GANG_PLACED], pod_PF[0, POD_GANG_LEFT] = len(mates), around.left
    for n, view in enumerate(views):
        view.mates_left, view.rack_room = around.left, around.rooms[n % len(around.rooms)]
        node_NF[n, GANG_RACK_ROOM] = view.rack_room
        view.to_mates = [distance(state.nodes[n], state.nodes[mate]) for mate in mates]
        for reach, column in enumerate((GANG_ON_NODE, GANG_IN_RACK, GANG_IN_ZONE)):
            node_NF[n, column] = sum(apart <= reach for apart in view.to_mates)


def has_room(view: View, shape: PodShape) -> bool:
    """Scores are only promised where the devices fit."""
    return devices_fit(view.lefts, shape.gpu_milli, shape.gpu_count)


def one_node(lefts: list[int], model: str = "A") -> IntArray:
    assert model in ("", *MODELS)
    return np.array([lefts or [0]], np.int64)


def model_index(model: str) -> int:
    return MODELS.index(model) if model else -1


def test_there_is_a_twin_for_every_rule() -> None:
    assert set(ALL) == set(RULES)
    assert len(ALL) == 13


@pytest.mark.parametrize("name", sorted(RULES))
@given(used_clusters(), shapes(), typical_lists(), st.integers(0, 2**48 - 1), surroundings)
@checked(60)
def test_score_of_a_rule_equals_its_twin(
    name: str,
    cluster: tuple[ClusterState, list[View]],
    shape: PodShape,
    typical: list[TypicalPod],
    drawn: int,
    around: Surroundings,
) -> None:
    state, views = cluster
    N, draw = len(views), drawn / 2**48
    pod_PF, node_NF = pod_row(shape, draw), features(state)
    show_gang(state, views, around, pod_PF, node_NF)
    feasible_N = np.array([has_room(view, shape) for view in views])
    out_BN, device_BN = np.full((1, N), np.nan), np.full((1, N), -1, np.int64)
    devices = state.arrays.device_left_ND.shape[1]
    score_batch(
        ALL[name].rules._replace(typical=kernel_typical(typical, state.models, devices)),
        pod_PF,
        node_NF[None],
        state.arrays.device_left_ND[None],
        feasible_N[None],
        out_BN,
        device_BN,
        np.zeros(standing_columns(state.arrays.device_left_ND.shape[1])),
    )
    for n, view in enumerate(views):
        if feasible_N[n]:
            assert out_BN[0, n] == RULES[name](shape, view, typical, draw)
        else:
            assert np.isnan(out_BN[0, n])
            assert device_BN[0, n] == -1
        shares = shape.gpu_count == 1 and shape.gpu_milli < 1000
        if feasible_N[n] and name == "fgd@1" and shares:
            assert device_BN[0, n] == fgd(shape, view, typical)[1]
        else:
            assert device_BN[0, n] == -1


@pytest.mark.parametrize(("milli", "count", "named"), [(1, 1, True), (999, 1, True), (1000, 1, False), (500, 2, False)])
def test_fgd_names_the_device_of_a_share_alone(milli: int, count: int, named: bool) -> None:
    state = ClusterState([Node("n", 8000, 2**30, gpu_count=2, gpu_model="A")])
    typical = kernel_typical([TypicalPod(1000, 500, 1, "", 1.0)], state.models, 2)
    out_BN, device_BN = np.zeros((1, 1)), np.full((1, 1), -1, np.int64)
    score_batch(
        ALL["fgd@1"].rules._replace(typical=typical),
        pod_row(PodShape(1000, 1, milli, count)),
        features(state)[None],
        state.arrays.device_left_ND[None],
        np.ones((1, 1), np.bool_),
        out_BN,
        device_BN,
        np.zeros(standing_columns(state.arrays.device_left_ND.shape[1])),
    )
    assert (device_BN[0, 0] >= 0) == named


@given(used_clusters(), shapes(), typical_lists())
@checked(400)
def test_quick_fgd_gives_the_published_integer(
    cluster: tuple[ClusterState, list[View]], shape: PodShape, typical: list[TypicalPod]
) -> None:
    compare_quick_fgd(*cluster, shape, typical)


@given(used_clusters(), shapes(), typical_lists(simple=True))
@checked(600)
def test_quick_fgd_gives_the_published_integer_where_its_tables_are_complete(
    cluster: tuple[ClusterState, list[View]], shape: PodShape, typical: list[TypicalPod]
) -> None:
    compare_quick_fgd(*cluster, shape, typical)


def test_incomplete_tables_are_not_used() -> None:
    """A typical pod with parts of two devices: it fits beside nobody who takes more than half of one."""
    state = ClusterState([Node("n", 8000, 2**30, gpu_count=2, gpu_model="A")])
    view = empty_node(memory_gib=1, gpus=2)
    compare_quick_fgd(state, [view], PodShape(1000, 0, 600, 1), [TypicalPod(1000, 500, 2, "", 1.0)])
    assert fgd(PodShape(1000, 0, 600, 1), view, [TypicalPod(1000, 500, 2, "", 1.0)])[0] == 19


def compare_quick_fgd(state: ClusterState, views: list[View], shape: PodShape, typical: list[TypicalPod]) -> None:
    left_ND = state.arrays.device_left_ND
    tables = kernel_typical(typical, state.models, left_ND.shape[1])
    node_NF, pod_PF = features(state), pod_row(shape)
    for n, view in enumerate(views):
        if not has_room(view, shape):
            continue
        quick = scoring.fgd_score(tables, pod_PF, 0, node_NF, n, left_ND)
        published = scoring.fgd_score_published(tables, pod_PF, 0, node_NF, n, left_ND)
        score, device = fgd(shape, view, typical)
        assert quick == published == score
        best, found = scoring.fgd_best_device(tables, pod_PF, 0, node_NF, n, left_ND)
        assert (best, found) == (score, -1 if device is None else device)


@given(LEFTS, st.integers(-1, 9000), st.sampled_from(["", *MODELS]), typical_lists())
@checked(300)
def test_amounts_equal_the_published_additions_to_the_bit(
    lefts: list[int], cpu: int, model: str, typical: list[TypicalPod]
) -> None:
    tables = kernel_typical(typical, MODELS, max(1, len(lefts)))
    arguments = (tables, model_index(model), cpu, one_node(lefts), 0, len(lefts), 0, 0)
    expected = slow.amounts(cpu, lefts, model, typical)
    assert list(fragmentation.amounts(*arguments)) == expected
    assert fragmentation.amount(*arguments) == slow.fragmented(expected)


@given(LEFTS, gpu_requests(), typical_lists(), st.data())
@checked(200)
def test_amounts_after_a_placement_equal_the_amounts_of_the_changed_node(
    lefts: list[int], request: tuple[int, int], typical: list[TypicalPod], data: st.DataObject
) -> None:
    milli, _ = request
    room = [d for d, left in enumerate(lefts) if left >= milli]
    taken = data.draw(st.sets(st.sampled_from(room))) if room else set()
    mask = sum(1 << d for d in taken)
    after = [left - milli if d in taken else left for d, left in enumerate(lefts)]
    tables = kernel_typical(typical, MODELS, max(1, len(lefts)))
    found = fragmentation.amounts(tables, 0, 2000, one_node(lefts), 0, len(lefts), mask, milli)
    assert list(found) == slow.amounts(2000, after, "A", typical)


@given(LEFTS, st.integers(-1, 9000), st.sampled_from(["", *MODELS]), typical_lists(simple=True))
@checked(300)
def test_quick_amount_is_the_published_one_up_to_rounding(
    lefts: list[int], cpu: int, model: str, typical: list[TypicalPod]
) -> None:
    tables = kernel_typical(typical, MODELS, max(1, len(lefts)))
    quick = fragmentation.quick_amount(tables, model_index(model), cpu, one_node(lefts), 0, len(lefts))
    assert tables.tables_complete
    assert math.isclose(quick, slow.fragmented(slow.amounts(cpu, lefts, model, typical)), abs_tol=1e-9)


@given(typical_lists())
@checked(100)
def test_tables_know_when_they_are_incomplete(typical: list[TypicalPod]) -> None:
    parts = any(pod.count > 1 and pod.milli < 1000 for pod in typical)
    assert kernel_typical(typical, MODELS, 8).tables_complete is not parts


@pytest.mark.skipif(not COMPILED, reason="only matters to compiled code")
@given(typical_lists(), st.integers(0, 3), st.integers(1, 8))
@checked(100)
def test_tables_always_have_the_same_memory_layout(typical: list[TypicalPod], models: int, devices: int) -> None:
    """Another layout is another type to numba: every kernel that takes the tables would be compiled once more."""
    tables = kernel_typical(typical, MODELS[:models], devices)
    for name, table in tables._asdict().items():
        assert not isinstance(table, np.ndarray) or table.flags.c_contiguous, name


@given(st.integers(0, 2**48 - 1), st.integers(-1, 10**7))
@example(2**48 - 1, 10**7)
@checked(300)
def test_random_numbers_are_those_of_unbounded_integers(seed: int, sequence: int) -> None:
    assert quick_random_unit(seed, sequence) == random_unit(seed, sequence)


@given(used_clusters())
@checked(100)
def test_node_features_describe_the_node(cluster: tuple[ClusterState, list[View]]) -> None:
    state, views = cluster
    node_NF = np.full((len(views), len(NODE_FEATURES)), np.nan)
    encode_all(state.arrays, np.arange(len(views)), node_NF)
    for n, view in enumerate(views):
        kinds = sum(1 << (0 if tag == "share-gpu" else int(tag.split("-")[0])) for tag in view.tags)
        assert node_NF[n, :GANG_ON_NODE].tolist() == [
            view.cpu_free,
            view.cpu_capacity,
            view.memory_free,
            view.memory_capacity,
            state.arrays.free_NR[n, 2],
            state.nodes[n].pods,
            sum(view.lefts),
            len(view.lefts),
            view.lefts.count(1000),
            max(view.lefts, default=0),
            state.models.index(view.model) if view.model else -1,
            kinds,
            view.cpu_scored,
            view.memory_scored,
            view.last_placed,
            n,
        ]
        assert node_NF[n, RACK : ZONE + 1].tolist() == [state.arrays.rack_N[n], state.arrays.zone_N[n]]
        assert np.isnan(node_NF[n, [*range(GANG_ON_NODE, RACK), LOAD]]).all(), "columns of others"


# By hand


def empty_node(cpu: int = 8000, memory_gib: int = 16, gpus: int = 0) -> View:
    size = memory_gib * 1024 * MIB
    return View(cpu, size, cpu, size, [1000] * gpus, "A")


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        # 1000 of 8000 milli and 4 of 16 GiB: 87 and 75 left over, 12 and 25 taken
        ("least-allocated@1", PodShape(1000, 4096 * MIB), 81),
        ("most-allocated@1", PodShape(1000, 4096 * MIB), 18),
        # |1/8 - 1/4| / 2 = 0.0625: 93 with the pod, 100 without
        ("balanced-allocation@1", PodShape(1000, 4096 * MIB), 50 + (50 + 93 - 100) // 2),
        ("balanced-allocation@1", PodShape(2000, 4096 * MIB), 75),
        ("balanced-allocation@1", PodShape(), 0),
        # nothing asked for counts as 100 milli and 200 MiB: 98 and 98 left over
        ("least-allocated@1", PodShape(), 98),
        ("most-allocated@1", PodShape(), 1),
        ("best-fit@1", PodShape(8000, 0), 100),
        ("gpu-packing@1", PodShape(1000, 0), 0),
        ("gpu-clustering@1", PodShape(1000, 0), 0),
        ("fgd@1", PodShape(1000, 0), 50),
    ],
)
def test_twin_scores_are_the_ones_worked_out_by_hand(name: str, shape: PodShape, expected: int) -> None:
    assert RULES[name](shape, empty_node(), [TypicalPod(4000, 0, 0, "", 1.0)], 0.0) == expected


@pytest.mark.parametrize(
    ("lefts", "milli", "count", "expected"),
    [
        ([1000, 1000], 500, 1, 31),  # idle node
        ([1000, 400], 500, 1, 49),  # opens a device
        ([1000, 400], 300, 1, 96),  # 400 milli are 40 %: 100 - 4
        ([1000, 1000, 400, 1000], 1000, 3, 47),
    ],
)
def test_gpu_packing_twin_prefers_used_devices(lefts: list[int], milli: int, count: int, expected: int) -> None:
    node = empty_node()
    node.lefts = lefts
    shape = PodShape(gpu_milli=milli, gpu_count=count)
    assert RULES["gpu-packing@1"](shape, node, [], 0.0) == expected


@pytest.mark.parametrize(
    ("apart", "near", "far"),
    [
        ([0, 0], 100, 0),
        ([1], 100 * 2 / 3, 100 - 100 * 2 / 3),
        ([0, 1, 2, 3], 50, 50),
        ([3, 3], 0, 100),
    ],
)
def test_gang_twins_count_three_two_and_one_point(apart: list[int], near: float, far: float) -> None:
    node = empty_node()
    node.to_mates = apart
    node.mates_left, node.rack_room = 2, 1  # only the first pod of a gang asks for room
    assert RULES["gang-locality@1"](PodShape(), node, [], 0.0) == near
    assert RULES["gang-spread@1"](PodShape(), node, [], 0.0) == far


@pytest.mark.parametrize(
    ("left", "room", "near"),
    [(4, 1, 25), (4, 4, 100), (4, 9, 100), (1, 1, 100), (0, 9, 0)],
)
def test_gang_twins_send_the_first_pod_where_the_rack_has_room(left: int, room: int, near: float) -> None:
    """The last is a pod without gang; spreading has no opinion on either."""
    node = empty_node()
    node.mates_left, node.rack_room = left, room
    assert RULES["gang-locality@1"](PodShape(), node, [], 0.0) == near
    assert RULES["gang-spread@1"](PodShape(), node, [], 0.0) == 0


@given(
    st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=12),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_best_totals_are_those_of_a_full_sort(totals: list[float], count: int, random: Random) -> None:
    rank = list(range(len(totals)))
    random.shuffle(rank)
    assert best_totals(np.array(totals), np.array(rank), count) == choices.best_totals(totals, rank, count)
