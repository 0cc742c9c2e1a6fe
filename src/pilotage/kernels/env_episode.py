"""How an episode of an environment begins, and how its nodes leave and come back.

Everything is drawn from the seed of the episode by kernels.features.random_unit; each kind of draw has a stream.
"""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, inner
from pilotage.kernels.env_figures import measure_node
from pilotage.kernels.env_gangs import nearness
from pilotage.kernels.env_state import (
    AGAIN,
    LOST,
    NEARNESS,
    NODES,
    PAIRS,
    PLACED,
    PODS,
    SEED,
    STEPS,
    TRAFFIC,
    UNDECIDED,
    UP,
    Copy,
    EnvRules,
    World,
)
from pilotage.kernels.features import LOAD, encode_node, random_unit
from pilotage.model.cluster import Demand, shift
from pilotage.model.workload import IntArray

BACKGROUND = 0.2  # the most load that a node carries without pods
PERIOD = 16  # decisions between two points of the curve along which measured load varies
# Streams of random numbers; the first one, 0, is the draw that policies see, as in the simulator.
STREAM = 1 << 24
SIZE, NODE, UNIT, BASE, SHARE, CHANGE, PLACE, WAVE = (STREAM * k for k in range(1, 9))

shift_resources = inlined_inner(shift)


@inlined_inner
def drawn(copy: Copy, stream: int, index: int) -> float:
    return random_unit(copy.counter_X[SEED], stream + index)


@inner
def begin_episode(world: World, rules: EnvRules, copy: Copy, seed: int) -> None:
    """Empty nodes and a list of pods, drawn afresh."""
    copy.counter_X[:] = 0
    copy.amount_Y[:] = 0.0
    copy.counter_X[SEED] = seed
    copy.counter_X[NODES] = rules.fewest + int(drawn(copy, SIZE, 0) * (rules.most - rules.fewest + 1))
    draw_nodes(world, copy)
    draw_pods(world, rules, copy)
    copy.blocked_S[:] = False
    copy.load_N[:] = 0.0
    copy.part_NM[:] = 0.0
    copy.total_M[:] = 0.0
    for n in range(copy.node_NF.shape[0]):
        clear_node(world, copy, n)
        copy.node_NF[n, :] = 0.0
        if n < copy.counter_X[NODES]:
            add_node(world, rules, copy, n)


@inner
def draw_nodes(world: World, copy: Copy) -> None:
    """Which node stands in which place: all different. Places without a node may get theirs later."""
    N, K = copy.kind_N.shape[0], world.capacity_KR.shape[0]
    for n in range(N):
        copy.kind_N[n] = n
    for k in range(N, K):  # a sample in one pass: each of the K nodes is kept with the same chance
        place = int(drawn(copy, NODE, k) * (k + 1))
        if place < N:
            copy.kind_N[place] = k
    for n in range(N - 1 if copy.counter_X[NODES] < N else 0, 0, -1):  # the first places are those that are there
        place = int(drawn(copy, NODE, n) * (n + 1))
        copy.kind_N[n], copy.kind_N[place] = copy.kind_N[place], copy.kind_N[n]
    for e in range(copy.eligible_EN.shape[0]):
        for n in range(N):
            copy.eligible_EN[e, n] = world.shapes.eligible_KN[e, copy.kind_N[n]]
    renumber(copy.kind_N, world.rack_K, world.number_Z, copy.cluster.rack_N)
    renumber(copy.kind_N, world.zone_K, world.number_Z, copy.cluster.zone_N)


@inlined_inner
def renumber(kind_N: IntArray, label_K: IntArray, number_Z: IntArray, out_N: IntArray) -> None:
    """Numbers of racks or zones in order of appearance, as ClusterState gives them; -1 stays -1."""
    number_Z[:] = -1
    known = 0
    for n in range(kind_N.shape[0]):
        label = label_K[kind_N[n]]
        if label >= 0 and number_Z[label] < 0:
            number_Z[label] = known
            known += 1
        out_N[n] = number_Z[label] if label >= 0 else -1


@inner
def draw_pods(world: World, rules: EnvRules, copy: Copy) -> None:
    """Units are drawn until there are enough pods; the last gang may come out smaller."""
    counter_X, units = copy.counter_X, world.unit_start_U.shape[0] - 1
    pods = max(1, int(rules.pods_per_node * counter_X[NODES] + 0.5))
    counter_X[PODS] = pods
    p, cpu = 0, 0
    while p < pods:
        u = int(drawn(copy, UNIT, p) * units)
        start, end = world.unit_start_U[u], world.unit_start_U[u + 1]
        size = min(end - start, pods - p)
        for i in range(size):
            copy.shape_P[p + i] = world.unit_shape_Q[start + i]
            cpu += world.shapes.request_SR[copy.shape_P[p + i], 0]
            copy.gang_start_P[p + i] = p if size > 1 else 0
            copy.gang_end_P[p + i] = p + size if size > 1 else 0
            copy.node_P[p + i] = UNDECIDED
            copy.devices_P[p + i] = 0
        copy.amount_Y[PAIRS] += size * (size - 1) / 2.0
        p += size
    copy.amount_Y[TRAFFIC] = rules.traffic * counter_X[NODES] / cpu if cpu > 0 else 0.0


@inlined_inner
def clear_node(world: World, copy: Copy, n: int) -> None:
    """The place has no node."""
    cluster = copy.cluster
    cluster.capacity_NR[n, :] = 0
    cluster.free_NR[n, :] = 0
    cluster.device_left_ND[n, :] = 0
    cluster.kind_count_NT[n, :] = 0
    cluster.scored_used_N2[n, :] = 0
    cluster.device_count_N[n] = 0
    cluster.model_N[n] = -1
    cluster.last_placed_N[n] = 0
    cluster.alive_N[n] = False


@inner
def add_node(world: World, rules: EnvRules, copy: Copy, n: int) -> None:
    """The node of place n comes, empty, or comes back."""
    cluster, k = copy.cluster, copy.kind_N[n]
    for r in range(cluster.free_NR.shape[1]):
        cluster.capacity_NR[n, r] = cluster.free_NR[n, r] = world.capacity_KR[k, r]
    cluster.device_count_N[n] = world.device_count_K[k]
    for d in range(world.device_count_K[k]):
        cluster.device_left_ND[n, d] = 1000
    cluster.model_N[n] = world.model_K[k]
    cluster.alive_N[n] = True
    copy.load_N[n] = BACKGROUND * drawn(copy, BASE, n) if rules.traffic > 0.0 else 0.0
    encode_node(cluster, n, n, copy.node_NF)
    measure_node(world, copy, n)


@inlined_inner
def occupy(world: World, copy: Copy, pod: int, sign: int) -> None:
    """The pod takes (1) or gives back (-1) what it uses on its node; all that depends on the node follows."""
    shapes, s, n = world.shapes, copy.shape_P[pod], copy.node_P[pod]
    demand = Demand(shapes.request_SR[s], shapes.scored_S2[s], shapes.gpu_milli_S[s], shapes.gpu_count_S[s])
    shift_resources(copy.cluster, demand, n, copy.devices_P[pod], sign)
    if copy.amount_Y[TRAFFIC] > 0.0:
        cpu = shapes.request_SR[s, 0]
        copy.load_N[n] += sign * 2.0 * drawn(copy, SHARE, pod) * copy.amount_Y[TRAFFIC] * cpu
    encode_node(copy.cluster, n, n, copy.node_NF)
    measure_node(world, copy, n)
    copy.counter_X[PLACED] += sign


@inner
def change_a_node(world: World, rules: EnvRules, copy: Copy) -> bool:
    """Now and then a place drawn at random loses its node, if enough are left, or gets it (back).

    Not any more after as many steps as there are pods: so every episode ends, after twice as many at the latest.
    """
    counter_X = copy.counter_X
    if counter_X[STEPS] >= counter_X[PODS] or drawn(copy, CHANGE, counter_X[STEPS]) >= rules.node_changes:
        return False
    n = int(drawn(copy, PLACE, counter_X[STEPS]) * copy.node_NF.shape[0])
    if not copy.cluster.alive_N[n]:
        add_node(world, rules, copy, n)
    elif copy.total_M[UP] > rules.kept_up:
        lose_node(world, copy, n)
    else:
        return False
    copy.blocked_S[:] = False
    return True


@inner
def lose_node(world: World, copy: Copy, n: int) -> None:
    """Its pods come up again, in the order in which they first came. The node's row stays, as in the simulator."""
    counter_X = copy.counter_X
    for pod in range(counter_X[PODS] - 1, -1, -1):
        if copy.node_P[pod] != n:
            continue
        occupy(world, copy, pod, -1)
        if copy.gang_end_P[pod] > 0:
            copy.total_M[NEARNESS] -= nearness(copy, pod, n)
        copy.node_P[pod] = UNDECIDED
        copy.devices_P[pod] = 0
        copy.again_P[counter_X[AGAIN]] = pod
        counter_X[AGAIN] += 1
        counter_X[LOST] += 1
    copy.cluster.alive_N[n] = False
    copy.load_N[n] = 0.0
    measure_node(world, copy, n)


@inner
def measure_load(rules: EnvRules, copy: Copy) -> None:
    """The column `load` of every node: what it carries, times a factor that wanders between 1 -+ fluctuation."""
    step = copy.counter_X[STEPS]
    point, part = step // PERIOD, (step % PERIOD) / PERIOD
    for n in range(copy.node_NF.shape[0]):
        index = point * copy.node_NF.shape[0] + n
        wave = (1.0 - part) * drawn(copy, WAVE, index) + part * drawn(copy, WAVE, index + copy.node_NF.shape[0])
        factor = 1.0 + rules.fluctuation * (2.0 * wave - 1.0)
        copy.node_NF[n, LOAD] = min(1.0, copy.load_N[n] * factor)
