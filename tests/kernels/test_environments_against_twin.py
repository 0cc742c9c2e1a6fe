"""Every state of an environment follows from its placements, and every reward from the change they made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pilotage.envs.settings import EnvSettings
from pilotage.envs.vector import VectorCluster
from pilotage.kernels.devices import BEST, choose_devices
from pilotage.kernels.env_figures import OBJECTIVES
from pilotage.kernels.env_state import FIGURES, NODES, POD, PODS, SEED
from pilotage.kernels.features import (
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    LOAD,
    NODE_FEATURES,
    POD_GANG_PLACED,
    encode_all,
)
from pilotage.kernels.inputs import encode_inputs
from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, Pod, Workload
from pilotage.workloads.trace import Trace
from reference.environment import SlowCluster
from reference.fragmentation import typical_pods
from reference.machines import distance
from reference.strategies import checked, gang_lists, node_lists, shapes

WEIGHTS = dict(zip(OBJECTIVES, (3.0, 2.0, 5.0, 1.0, 4.0, 7.0), strict=True))
OWN_COLUMNS = [f for f in range(len(NODE_FEATURES)) if f < GANG_ON_NODE]


@st.composite
def worlds(draw: st.DrawFn) -> EnvSettings:
    nodes = draw(node_lists(most=6))
    kinds = draw(st.lists(shapes([node.name for node in nodes], most=3), min_size=1, max_size=6))
    mates: list[Gang | None] = draw(gang_lists(8))
    pods = [Pod(f"p{i}", draw(st.sampled_from(kinds)), gang=mate) for i, mate in enumerate(mates)]
    most = draw(st.integers(1, len(nodes)))
    return EnvSettings.of(
        "packing",
        workload=Trace.of("drawn", nodes, Workload.of(pods)),
        nodes=(draw(st.integers(1, most)), most),
        pods_per_node=draw(st.sampled_from([1, 2.5, 6])),
        node_changes=draw(st.sampled_from([0.0, 0.0, 0.4])),
        traffic=draw(st.sampled_from([0.0, 0.5])),
        objectives=WEIGHTS,
    )


def begun(settings: EnvSettings, seed: int, copies: int = 1) -> VectorCluster:
    vector = VectorCluster(settings, copies, seed)
    try:
        vector.reset()
    except InputError:
        assume(False)
    return vector


def slow(vector: VectorCluster) -> SlowCluster:
    """The moment that copy 0 is in."""
    copies = vector.state_of_copies
    _, workload = vector.episode(0)
    node_P, devices_P = vector.placements(0)
    return SlowCluster(
        nodes=[vector.source.nodes[k] for k in copies.kind_N[0]],
        up=copies.cluster.alive_N[0].tolist(),
        pods=list(workload),
        node_P=node_P.tolist(),
        devices_P=devices_P.tolist(),
        seed=int(copies.counter_X[0, SEED]),
        traffic=vector.settings.traffic,
        began_with=int(copies.counter_X[0, NODES]),
        typical=typical_pods([pod.shape for pod in vector.source.workload]),
    )


def assert_cluster_is(vector: VectorCluster, twin: SlowCluster) -> None:
    cluster, due = vector.cluster(0), int(vector.state_of_copies.counter_X[0, POD])
    machines = twin.machines()
    for n, machine in enumerate(machines):
        there = cluster.capacity_NR[n, 2] > 0
        assert there or not (machine.alive or machine.running)
        if there:
            assert cluster.free_NR[n, :3].tolist() == [machine.free(key) for key in ("cpu", "memory", "pods")]
            assert cluster.device_left_ND[n, : machine.node.gpu_count].tolist() == machine.lefts()
            assert min(machine.free("pods"), *machine.lefts(), 0) == 0
        assert machine.alive or not machine.running
    mask = [machine.fits(twin.pods[due].shape) for machine in machines]
    assert vector.buffers.mask_BN[0].tolist() == mask
    assert any(mask)


def assert_features_are(vector: VectorCluster, twin: SlowCluster) -> None:
    copies, due = vector.state_of_copies, int(vector.state_of_copies.counter_X[0, POD])
    fresh_NF = np.zeros_like(copies.node_NF[0])
    encode_all(vector.cluster(0), np.arange(vector.nodes), fresh_NF)
    gang = twin.pods[due].gang
    mates = [twin.nodes[at] for p, at in enumerate(twin.node_P) if gang and at >= 0 and twin.pods[p].gang == gang]
    assert copies.pod_F[0, POD_GANG_PLACED] == len(mates)
    for n, machine in enumerate(twin.machines()):
        row = copies.node_NF[0, n]
        if vector.cluster(0).capacity_NR[n, 2] > 0:
            assert row[OWN_COLUMNS].tolist() == fresh_NF[n, OWN_COLUMNS].tolist()
        apart = [distance(machine.node, mate) for mate in mates]
        counted = [sum(d <= furthest for d in apart) for furthest in range(3)]
        assert row[[GANG_ON_NODE, GANG_IN_RACK, GANG_IN_ZONE]].tolist() == counted
        carried = twin.load(n) if machine.alive else 0.0
        assert 0.5 * carried - 1e-9 <= row[LOAD] <= min(1.0, 1.5 * carried) + 1e-9 or carried > 1
    pod_I, node_NI = np.zeros_like(vector.buffers.pod_BI[0]), np.zeros_like(vector.buffers.node_BNI[0])
    encode_inputs(copies.pod_F[0], copies.node_NF[0], vector.cluster(0).device_left_ND, pod_I, node_NI)
    assert np.array_equal(pod_I, vector.buffers.pod_BI[0])
    assert np.array_equal(node_NI, vector.buffers.node_BNI[0])


def assert_reward_is(vector: VectorCluster, before: SlowCluster, due: int, action: int, devices: int) -> None:
    """Devices are those the pod got; a refused pod changes nothing."""
    reward = float(vector.buffers.reward_B[0])
    if not before.machines()[action].fits(before.pods[due].shape):
        assert reward == -vector.settings.penalty
        return
    node_P, devices_P = list(before.node_P), list(before.devices_P)
    node_P[due], devices_P[due] = action, devices
    after = replace(before, node_P=node_P, devices_P=devices_P)
    assert reward == pytest.approx(after.worth(WEIGHTS) - before.worth(WEIGHTS), rel=1e-5, abs=1e-6)


def devices_of(before: SlowCluster, due: int, action: int) -> int:
    """Those the pod gets: by itself, for its node may be lost in the same step."""
    shape, lefts = before.pods[due].shape, before.machines()[action].lefts()
    if shape.gpu_devices:
        return shape.gpu_devices
    return int(choose_devices(np.array(lefts, np.int64), len(lefts), shape.gpu_milli, shape.gpu_count, BEST, 0.0))


@checked(60)
@given(worlds(), st.integers(0, 999), st.integers(0, 2**31))
def test_state_mask_and_reward_follow_from_the_placements(settings: EnvSettings, seed: int, draws: int) -> None:
    vector, random = begun(settings, seed), np.random.default_rng(draws)
    for _ in range(25):
        before, due = slow(vector), int(vector.state_of_copies.counter_X[0, POD])
        assert_cluster_is(vector, before)
        assert_features_are(vector, before)
        allowed = np.flatnonzero(vector.buffers.mask_BN[0])
        action = int(random.choice(allowed)) if random.random() < 0.9 else int(random.integers(vector.nodes))
        fits = action in allowed
        vector.step([action])
        assert_reward_is(vector, before, due, action, devices_of(before, due, action) if fits else 0)


@checked(40)
@given(worlds(), st.integers(0, 999))
def test_every_pod_is_placed_or_failed_and_the_rewards_add_up(settings: EnvSettings, seed: int) -> None:
    settings = replace(settings, node_changes=0.0)
    vector = begun(settings, seed)
    last, total = slow(vector), 0.0
    start, pods, played = last.worth(WEIGHTS), int(vector.state_of_copies.counter_X[0, PODS]), int(vector.seed_B[0])
    while True:
        last, due = slow(vector), int(vector.state_of_copies.counter_X[0, POD])
        action = int(vector.buffers.mask_BN[0].argmax())
        vector.step([action])
        total += float(vector.buffers.reward_B[0])
        if vector.buffers.done_B[0]:
            break
    node_P, devices_P = list(last.node_P), list(last.devices_P)
    node_P[due], devices_P[due] = action, devices_of(last, due, action)
    end = replace(last, node_P=node_P, devices_P=devices_P)
    figures = dict(zip(FIGURES, vector.buffers.figures_BM[0], strict=True))
    assert figures["placed"] + figures["failed"] == pods
    assert figures["placed"] == sum(at >= 0 for at in node_P)
    assert figures["seed"] == played >= seed
    assert figures["return"] == pytest.approx(total, rel=1e-4, abs=1e-4)
    assert figures["return"] == pytest.approx(end.worth(WEIGHTS) - start, rel=1e-6, abs=1e-6)
    for name, value in end.figures().items():
        assert figures[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
