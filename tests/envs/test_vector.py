"""Many clusters at once: seeds, buffers, states, and the same semantics as the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pilotage.envs.settings import EnvSettings
from pilotage.envs.vector import FIGURES, Buffers, VectorCluster, empty_buffers
from pilotage.kernels.env_state import POD
from pilotage.kernels.env_step import random_actions
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, FeatureSchema, Normalise, Scope, WorkloadMix
from pilotage.sim.run import Run
from pilotage.workloads.trace import Trace
from reference.strategies import checked, node_lists, shapes

VARIANTS = {
    "balance": EnvSettings.of("balance"),
    "mixed": EnvSettings.of("balance", workload="mixed", nodes=(3, 14)),
    "packing": EnvSettings.of("packing", nodes=(5, 12)),
    "gangs": EnvSettings.of("packing", workload="openb-like-gangs", objectives={"locality": 1.0}),
    "changing": EnvSettings.of("packing", nodes=(4, 12), node_changes=0.2),
    "load": EnvSettings.of("load", nodes=(3, 8)),
}


def begun(settings: EnvSettings, copies: int = 4, seed: int = 0) -> VectorCluster:
    vector = VectorCluster(settings, copies, seed)
    vector.reset()
    return vector


def play(vector: VectorCluster, steps: int, start: int = 0) -> list[list[bytes]]:
    """Random actions that depend on the number of the step; what was in the buffers after each."""
    action_B, seen = np.zeros(vector.copies, np.int64), []
    for step in range(start, start + steps):
        random_actions(vector.buffers.mask_BN, 7, step, action_B)
        seen.append([array.tobytes() for array in vector.step(action_B)])
    return seen


@pytest.mark.parametrize("name", VARIANTS)
def test_a_seed_decides_everything(name: str) -> None:
    settings = VARIANTS[name]
    assert play(begun(settings, seed=5), 200) == play(begun(settings, seed=5), 200)
    assert play(begun(settings, seed=5), 3) != play(begun(settings, seed=6), 3) or name == "balance"


@pytest.mark.parametrize("name", VARIANTS)
def test_a_restored_state_goes_on_exactly(name: str) -> None:
    vector = begun(VARIANTS[name])
    play(vector, 90)
    state = vector.state()
    first = play(vector, 120, start=90)
    other = VectorCluster(VARIANTS[name], 4, 77)
    other.restore(state)
    assert play(other, 120, start=90) == first


def test_a_state_of_other_settings_is_refused() -> None:
    state = begun(VARIANTS["balance"]).state()
    with pytest.raises(InputError, match="other settings"):
        begun(VARIANTS["load"]).restore(state)
    with pytest.raises(InputError, match="other settings"):
        begun(VARIANTS["balance"], copies=3).restore(state)


@pytest.mark.parametrize("name", VARIANTS)
def test_an_episode_is_the_same_in_every_copy(name: str) -> None:
    one, four = begun(VARIANTS[name], 1, seed=13), begun(VARIANTS[name], 4, seed=10)
    for step in range(150):
        theirs = four.buffers._asdict()
        for name_of_array, mine in one.buffers._asdict().items():
            assert np.array_equal(mine[0], theirs[name_of_array][3])
        action = np.flatnonzero(one.buffers.mask_BN[0])[step % one.buffers.mask_BN[0].sum()]
        four.step([*four.buffers.mask_BN[:3].argmax(axis=1), action])
        if one.step([action]).done_B[0]:
            break
    assert step > 10


def test_seeds_count_up_in_the_order_in_which_episodes_begin_and_come_again() -> None:
    vector = VectorCluster(EnvSettings.of("balance", nodes=(2, 2)), 3, 100, episodes=4)
    vector.reset()
    assert vector.seed_B.tolist() == [100, 101, 102]
    play(vector, 30)
    assert vector.buffers.done_B.all()
    assert vector.seed_B.tolist() == [103, 100, 101]
    assert vector.buffers.figures_BM[:, FIGURES.index("seed")].tolist() == [100, 101, 102]
    vector.reset(seed=500)
    assert vector.seed_B.tolist() == [500, 501, 502]


def test_random_placement_on_the_uniform_workload_has_the_known_variance() -> None:
    vector = begun(EnvSettings(), copies=400)
    play(vector, 150)
    assert vector.buffers.done_B.all()
    assert vector.buffers.figures_BM[:, FIGURES.index("cpu_variance")].mean() == pytest.approx(0.0033, rel=0.05)


def test_results_go_to_the_arrays_of_the_caller() -> None:
    buffers = empty_buffers(4, 10)
    vector = VectorCluster(EnvSettings(), 4, 0, buffers)
    vector.reset()
    play(vector, 5)
    assert buffers.reward_B.any()
    assert buffers.node_BNI.any()
    assert vector.buffers is buffers
    for wrong in (buffers._replace(pod_BI=np.zeros((4, 7), np.float32)), empty_buffers(4, 11), empty_buffers(3, 10)):
        with pytest.raises(InputError, match="expected contiguous"):
            VectorCluster(EnvSettings(), 4, 0, wrong)


def test_a_place_without_a_node_has_zeros_and_is_never_allowed() -> None:
    vector = begun(EnvSettings.of("balance", nodes=(3, 9)), copies=30)
    there_BN = np.arange(9) < np.array([[len(vector.episode(b)[0])] for b in range(30)])
    assert there_BN.sum(axis=1).min() == 3
    assert there_BN.all(axis=1).any()
    assert (vector.buffers.node_BNI.any(axis=2) == there_BN).all()
    assert (vector.buffers.mask_BN == there_BN).all()
    assert ((vector.buffers.rack_BN >= 0) == there_BN).all()
    assert ((vector.buffers.zone_BN >= 0) == there_BN).all()


def test_nodes_leave_and_come_and_their_pods_come_up_again() -> None:
    vector = begun(EnvSettings.of("balance", nodes=(4, 10), node_changes=0.3), copies=20)
    up = []
    for step in range(300):  # twice as many as there are pods in the largest cluster
        play(vector, 1, start=step)
        up.append(vector.state_of_copies.cluster.alive_N.sum(axis=1))
    assert np.min(up) >= 2
    assert np.max(up) == 10
    figures = dict(zip(FIGURES, vector.buffers.figures_BM.T, strict=True))
    assert (figures["lost"] > 0).all()
    assert (figures["placed"] + figures["failed"] == 15 * figures["nodes"]).all()
    assert (figures["steps"] >= figures["placed"] + figures["lost"]).all()


def test_a_wrong_number_of_actions_or_copies_is_refused() -> None:
    with pytest.raises(InputError, match="one for each of 4 copies"):
        begun(EnvSettings()).step([0, 1])
    with pytest.raises(InputError, match="at least one"):
        VectorCluster(EnvSettings(), 0, 0)


def test_pods_that_fit_nowhere_are_refused_as_a_workload() -> None:
    trace = Trace.of("huge", [Node("a", 1000, 1000)], Workload.of([Pod("p", PodShape(2000))]))
    with pytest.raises(InputError, match="no pod of the workload fits"):
        begun(EnvSettings.of("packing", workload=trace))


# The same placements in the simulator


@dataclass
class Replay:
    """Chooses what was chosen, decision by decision."""

    node_P: Sequence[int]
    name: str = "replay@1"
    features: FeatureSchema = field(default_factory=FeatureSchema)
    scope: Scope = "cluster"
    normalise: Normalise = "none"
    decided: int = 0

    def prepare(self, mix: WorkloadMix) -> Replay:
        return self

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = 0.0
        out_BN[0, self.node_P[self.decided]] = 1.0
        self.decided += 1


def assert_as_in_the_simulator(vector: VectorCluster, copy: int) -> None:
    nodes, workload = vector.episode(copy)
    node_P, devices_P = vector.placements(copy)
    decided = int(vector.state_of_copies.counter_X[copy, POD])
    if decided == 0:
        return
    run = Run(nodes, workload.take(range(decided)), Replay(node_P.tolist()))
    run.advance()
    assert np.maximum(node_P[:decided], -1).tolist() == run.scene.progress.node_P.tolist()
    assert devices_P[:decided].tolist() == run.scene.progress.devices_P.tolist()
    mine, N, D = vector.cluster(copy), len(nodes), run.state.arrays.device_left_ND.shape[1]
    for name, array in run.state.arrays._asdict().items():
        ours = getattr(mine, name)[:N]
        if name == "model_N":  # numbered in the larger cluster that nodes are drawn from
            assert ((ours < 0) == (array < 0)).all()
        elif name in ("device_left_ND", "kind_count_NT"):
            assert np.array_equal(ours[:, : D + (name == "kind_count_NT")], array), name
        else:
            assert np.array_equal(ours, array), name


@pytest.mark.parametrize("name", ["balance", "mixed", "packing", "gangs", "load"])
def test_the_same_placements_give_the_same_cluster_in_the_simulator(name: str) -> None:
    vector = begun(VARIANTS[name], copies=2)
    for steps in (1, 20, 60):
        play(vector, steps)
        for copy in range(2):
            assert_as_in_the_simulator(vector, copy)


@checked(40)
@given(st.data())
def test_any_placements_give_the_same_cluster_in_the_simulator(data: st.DataObject) -> None:
    nodes = data.draw(node_lists(most=5))
    kinds = data.draw(st.lists(shapes([node.name for node in nodes], most=3), min_size=1, max_size=6))
    trace = Trace.of("drawn", nodes, Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(kinds)))
    vector = VectorCluster(EnvSettings.of("packing", workload=trace, pods_per_node=4), 1, 0)
    try:
        vector.reset()
    except InputError:
        assume(False)
    for _ in range(3):
        play(vector, data.draw(st.integers(1, 6)))
        assert_as_in_the_simulator(vector, 0)


def test_buffers_are_named_as_the_contract_says() -> None:
    names = ("pod_BI", "node_BNI", "mask_BN", "rack_BN", "zone_BN", "reward_B", "done_B", "figures_BM")
    assert Buffers._fields == names
