"""What environments work on: where episodes are drawn from, the state of every copy, the arrays of the caller.

Axes beside those of policies.api: B copies, K nodes to draw from, E distinct sets of constraints, U units to draw (a
pod, or a gang as a whole), Q pods of the units, P pods of an episode, O objectives, I inputs of learned scorers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.compiling import inlined_inner
from pilotage.kernels.feasibility import ShapeArrays
from pilotage.kernels.features import NODE_FEATURES, POD_FEATURES
from pilotage.kernels.fragmentation import Typical
from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS, Float32Array
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import BoolArray, FloatArray, IntArray

# Copy.counter_X
SEED, NODES, PODS, NEXT, AGAIN, SEQUENCE, POD, PLACED, FAILED, REFUSED, LOST, STEPS, SHOWN = range(13)
COUNTERS = 13
# Copy.amount_Y
RETURN, PAIRS, TRAFFIC = range(3)
AMOUNTS = 3
# Copy.total_M and part_NM: sums over the nodes that are up; the last one is a sum over pairs of pods
UP, CPU, CPU_SQUARES, MEMORY, MEMORY_SQUARES, GPU_USED, GPUS, FRAGMENTED = range(8)
USED, LOADS, LOAD_SQUARES, NEARNESS = range(8, 12)
NODE_SUMS, SUMS = 11, 12
# Copy.node_P of a pod that has no node
UNDECIDED, GONE = -1, -2

FIGURES = (
    "return",
    "cpu_variance",  # of the used share, over the nodes that are up
    "memory_variance",
    "gpu_allocation",  # share of the GPU capacity that is up
    "fragmentation",  # free GPU that typical pods cannot use, as a share of the same
    "used_nodes",  # share of the nodes that are up
    "locality",  # 1: every pair of a gang's pods is on one node
    "load_mean",
    "load_variance",
    "placed",  # pods that have a node at the end
    "failed",  # pods that have none
    "refused",  # those of them whose action named a node without room
    "lost",  # placements that ended because the node left
    "steps",
    "nodes",  # of the cluster when the episode began
    "seed",
)


class Buffers(NamedTuple):
    """Arrays of the caller that reset and step write to; the observation is that of the next decision."""

    pod_BI: Float32Array
    node_BNI: Float32Array
    mask_BN: BoolArray  # nodes that have room for the pod
    rack_BN: IntArray  # -1 = none
    zone_BN: IntArray
    reward_B: Float32Array
    done_B: BoolArray  # the step ended an episode: what the observation shows is the beginning of the next one
    figures_BM: FloatArray  # of the episode that ended last, in the order of FIGURES


def empty_buffers(copies: int, nodes: int) -> Buffers:
    return Buffers(
        pod_BI=np.zeros((copies, len(POD_INPUTS)), np.float32),
        node_BNI=np.zeros((copies, nodes, len(NODE_INPUTS)), np.float32),
        mask_BN=np.zeros((copies, nodes), np.bool_),
        rack_BN=np.full((copies, nodes), -1, np.int64),
        zone_BN=np.full((copies, nodes), -1, np.int64),
        reward_B=np.zeros(copies, np.float32),
        done_B=np.zeros(copies, np.bool_),
        figures_BM=np.zeros((copies, len(FIGURES))),
    )


class World(NamedTuple):
    """What episodes are drawn from. Never written to, but for the scratch."""

    capacity_KR: IntArray
    device_count_K: IntArray
    model_K: IntArray
    rack_K: IntArray
    zone_K: IntArray
    shapes: ShapeArrays  # its eligible_KN is over the nodes to draw from
    typical: Typical
    unit_start_U: IntArray  # pods of unit u are unit_shape_Q[unit_start_U[u] : unit_start_U[u + 1]]
    unit_shape_Q: IntArray
    number_Z: IntArray  # scratch: new numbers of racks and zones


class EnvRules(NamedTuple):
    """How episodes go; see envs.settings for what the numbers mean."""

    fewest: int
    most: int
    kept_up: int
    pods_per_node: float
    node_changes: float
    penalty: float
    traffic: float
    fluctuation: float
    weight_O: FloatArray


class Copy(NamedTuple):
    """One cluster and its episode. The arrays of all copies are the same tuple with one more axis in front."""

    cluster: ClusterArrays
    kind_N: IntArray  # which of the nodes to draw from stands in this place
    eligible_EN: BoolArray
    node_NF: FloatArray
    pod_F: FloatArray
    load_N: FloatArray  # what the node carries in the long run, 0 to 1; measurements vary around it
    part_NM: FloatArray
    total_M: FloatArray
    shape_P: IntArray
    gang_start_P: IntArray  # pods of a gang stand side by side: [start, end), both 0 without a gang
    gang_end_P: IntArray
    node_P: IntArray
    devices_P: IntArray
    again_P: IntArray  # pods that lost their node, the last one comes up first
    blocked_S: BoolArray  # nowhere room for this shape since a node last came or left
    counter_X: IntArray
    amount_Y: FloatArray


def fresh_copies(world: World, copies: int, nodes: int, pods: int) -> Copy:
    B, N, P = copies, nodes, pods
    shapes, R, D = world.shapes, world.capacity_KR.shape[1], max(1, int(world.device_count_K.max(initial=0)))
    cluster = ClusterArrays(
        capacity_NR=np.zeros((B, N, R), np.int64),
        free_NR=np.zeros((B, N, R), np.int64),
        device_count_N=np.zeros((B, N), np.int64),
        device_left_ND=np.zeros((B, N, D), np.int64),
        model_N=np.zeros((B, N), np.int64),
        alive_N=np.zeros((B, N), np.bool_),
        kind_count_NT=np.zeros((B, N, D + 1), np.int64),
        scored_used_N2=np.zeros((B, N, 2), np.int64),
        last_placed_N=np.zeros((B, N), np.int64),
        zone_N=np.zeros((B, N), np.int64),
        rack_N=np.zeros((B, N), np.int64),
    )
    return Copy(
        cluster=cluster,
        kind_N=np.zeros((B, N), np.int64),
        eligible_EN=np.zeros((B, shapes.eligible_KN.shape[0], N), np.bool_),
        node_NF=np.zeros((B, N, len(NODE_FEATURES))),
        pod_F=np.zeros((B, len(POD_FEATURES))),
        load_N=np.zeros((B, N)),
        part_NM=np.zeros((B, N, NODE_SUMS)),
        total_M=np.zeros((B, SUMS)),
        shape_P=np.zeros((B, P), np.int64),
        gang_start_P=np.zeros((B, P), np.int64),
        gang_end_P=np.zeros((B, P), np.int64),
        node_P=np.zeros((B, P), np.int64),
        devices_P=np.zeros((B, P), np.int64),
        again_P=np.zeros((B, P), np.int64),
        blocked_S=np.zeros((B, len(shapes.gpu_count_S)), np.bool_),
        counter_X=np.zeros((B, COUNTERS), np.int64),
        amount_Y=np.zeros((B, AMOUNTS)),
    )


@inlined_inner
def copy_of(many: Copy, b: int) -> Copy:
    """Views on copy b."""
    c = many.cluster
    return Copy(
        ClusterArrays(
            c.capacity_NR[b],
            c.free_NR[b],
            c.device_count_N[b],
            c.device_left_ND[b],
            c.model_N[b],
            c.alive_N[b],
            c.kind_count_NT[b],
            c.scored_used_N2[b],
            c.last_placed_N[b],
            c.zone_N[b],
            c.rack_N[b],
        ),
        many.kind_N[b],
        many.eligible_EN[b],
        many.node_NF[b],
        many.pod_F[b],
        many.load_N[b],
        many.part_NM[b],
        many.total_M[b],
        many.shape_P[b],
        many.gang_start_P[b],
        many.gang_end_P[b],
        many.node_P[b],
        many.devices_P[b],
        many.again_P[b],
        many.blocked_S[b],
        many.counter_X[b],
        many.amount_Y[b],
    )


@inlined_inner
def shapes_of(world: World, copy: Copy) -> ShapeArrays:
    """The shapes in the axes of one copy's cluster."""
    s = world.shapes
    return ShapeArrays(
        s.request_SR,
        s.scored_S2,
        s.gpu_milli_S,
        s.gpu_count_S,
        s.devices_S,
        s.eligible_S,
        copy.eligible_EN,
        s.pod_SF,
        s.priority_S,
    )
