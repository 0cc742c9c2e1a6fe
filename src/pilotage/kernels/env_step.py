"""Environments in compiled code: every copy carries out its action and goes on to the next decision."""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, inner, kernel
from pilotage.kernels.devices import BEST, choose_devices
from pilotage.kernels.env_episode import begin_episode, change_a_node, drawn, measure_load, occupy
from pilotage.kernels.env_figures import worth, write_figures
from pilotage.kernels.env_gangs import nearness, show_gang
from pilotage.kernels.env_state import (
    AGAIN,
    FAILED,
    GONE,
    NEARNESS,
    NEXT,
    POD,
    PODS,
    REFUSED,
    RETURN,
    SEQUENCE,
    SHOWN,
    STEPS,
    Buffers,
    Copy,
    EnvRules,
    World,
    copy_of,
    shapes_of,
)
from pilotage.kernels.feasibility import FITS, obstacle
from pilotage.kernels.features import POD_DRAW, random_unit
from pilotage.kernels.inputs import encode_inputs
from pilotage.model.workload import BoolArray, IntArray

MOST_EMPTY = 100  # episodes in a row without any decision, before a workload is called hopeless
# seeds_3
FIRST, EPISODES, STARTED = range(3)


@kernel
def step_copies(
    world: World, rules: EnvRules, many: Copy, buffers: Buffers, seeds_3: IntArray, action_B: IntArray
) -> bool:
    """One action in every copy; ended episodes are followed by new ones. False: no pod ever fits anywhere."""
    for b in range(action_B.shape[0]):
        copy = copy_of(many, b)
        reward = carry_out(world, rules, copy, action_B[b])
        copy.amount_Y[RETURN] += reward
        copy.counter_X[STEPS] += 1
        buffers.reward_B[b] = reward
        if rules.node_changes > 0.0 and change_a_node(world, rules, copy):
            show_places(copy, buffers, b)
        buffers.done_B[b] = not find_decision(world, copy, buffers.mask_BN[b])
        if buffers.done_B[b]:
            write_figures(copy, buffers.figures_BM[b])
            if not next_episode(world, rules, copy, buffers, b, seeds_3):
                return False
        observe(world, rules, copy, buffers, b)
    return True


@kernel
def reset_copies(world: World, rules: EnvRules, many: Copy, buffers: Buffers, seeds_3: IntArray) -> bool:
    """A new episode in every copy."""
    for b in range(buffers.reward_B.shape[0]):
        copy = copy_of(many, b)
        buffers.reward_B[b] = 0.0
        buffers.done_B[b] = False
        if not next_episode(world, rules, copy, buffers, b, seeds_3):
            return False
        observe(world, rules, copy, buffers, b)
    return True


@inner
def next_episode(world: World, rules: EnvRules, copy: Copy, buffers: Buffers, b: int, seeds_3: IntArray) -> bool:
    """Begins episodes until one has a decision."""
    for _ in range(MOST_EMPTY):
        begin_episode(world, rules, copy, seeds_3[FIRST] + seeds_3[STARTED] % seeds_3[EPISODES])
        seeds_3[STARTED] += 1
        if find_decision(world, copy, buffers.mask_BN[b]):
            show_places(copy, buffers, b)
            return True
    return False


@inlined_inner
def carry_out(world: World, rules: EnvRules, copy: Copy, node: int) -> float:
    """Places the pod in question and returns by how much that made the cluster better."""
    counter_X, shapes = copy.counter_X, shapes_of(world, copy)
    pod = counter_X[POD]
    s = copy.shape_P[pod]
    counter_X[SEQUENCE] += 1
    if node < 0 or node >= copy.node_NF.shape[0] or obstacle(copy.cluster, shapes, s, node) != FITS:
        counter_X[REFUSED] += 1
        counter_X[FAILED] += 1
        copy.node_P[pod] = GONE
        return -rules.penalty
    before = worth(copy, rules.weight_O)
    devices = shapes.devices_S[s]
    if devices == 0 and shapes.gpu_count_S[s] > 0:
        left_D, count = copy.cluster.device_left_ND[node], copy.cluster.device_count_N[node]
        devices = choose_devices(left_D, count, shapes.gpu_milli_S[s], shapes.gpu_count_S[s], BEST, 0.0)
    copy.node_P[pod], copy.devices_P[pod] = node, devices
    copy.cluster.last_placed_N[node] = counter_X[SEQUENCE]
    if copy.gang_end_P[pod] > 0:
        copy.total_M[NEARNESS] += nearness(copy, pod, node)
    occupy(world, copy, pod, 1)
    return worth(copy, rules.weight_O) - before


@inlined_inner
def find_decision(world: World, copy: Copy, mask_N: BoolArray) -> bool:
    """Goes on to the next pod that fits somewhere and writes where; False at the end of the episode."""
    counter_X, shapes = copy.counter_X, shapes_of(world, copy)
    while True:
        if counter_X[AGAIN] > 0:
            counter_X[AGAIN] -= 1
            pod = copy.again_P[counter_X[AGAIN]]
        elif counter_X[NEXT] < counter_X[PODS]:
            pod = counter_X[NEXT]
            counter_X[NEXT] += 1
        else:
            return False
        s = copy.shape_P[pod]
        if not copy.blocked_S[s]:
            fits = False
            for n in range(mask_N.shape[0]):
                mask_N[n] = obstacle(copy.cluster, shapes, s, n) == FITS
                fits |= mask_N[n]
            if fits:
                counter_X[POD] = pod
                return True
            copy.blocked_S[s] = True
        counter_X[SEQUENCE] += 1
        counter_X[FAILED] += 1
        copy.node_P[pod] = GONE


@inlined_inner
def observe(world: World, rules: EnvRules, copy: Copy, buffers: Buffers, b: int) -> None:
    """Writes what learned scorers see of the decision that is due."""
    counter_X = copy.counter_X
    pod = counter_X[POD]
    s = copy.shape_P[pod]
    for f in range(copy.pod_F.shape[0]):
        copy.pod_F[f] = world.shapes.pod_SF[s, f]
    copy.pod_F[POD_DRAW] = drawn(copy, 0, counter_X[SEQUENCE])
    if copy.gang_end_P[pod] > 0 or counter_X[SHOWN]:
        show_gang(copy, pod)
    if rules.traffic > 0.0:
        measure_load(rules, copy)
    encode_inputs(copy.pod_F, copy.node_NF, copy.cluster.device_left_ND, buffers.pod_BI[b], buffers.node_BNI[b])


@inner
def show_places(copy: Copy, buffers: Buffers, b: int) -> None:
    """Racks and zones of the nodes that are there."""
    cluster = copy.cluster
    for n in range(copy.node_NF.shape[0]):
        there = cluster.capacity_NR[n, 2] > 0
        buffers.rack_BN[b, n] = cluster.rack_N[n] if there else -1
        buffers.zone_BN[b, n] = cluster.zone_N[n] if there else -1


@kernel
def random_actions(mask_BN: BoolArray, seed: int, step: int, action_B: IntArray) -> None:
    """For each copy a node that is allowed, all with the same chance."""
    for b in range(mask_BN.shape[0]):
        allowed = 0
        for n in range(mask_BN.shape[1]):
            allowed += mask_BN[b, n]
        wanted = int(random_unit(seed, step * mask_BN.shape[0] + b) * allowed)
        for n in range(mask_BN.shape[1]):
            if mask_BN[b, n]:
                if wanted == 0:
                    action_B[b] = n
                    break
                wanted -= 1
