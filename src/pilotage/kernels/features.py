"""The columns that policies see, and the one function that fills them.

Their order is version 1 of the feature schema: columns may be appended, never moved or given another meaning.
"""

from __future__ import annotations

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import FloatArray, IntArray

FEATURES_VERSION = 1
DRAW_STEPS = 281474976710656.0  # 2^48: random numbers are multiples of its inverse

POD_FEATURES = (
    "cpu_milli",
    "memory_bytes",
    "gpu_milli",  # per device
    "gpu_count",
    "cpu_scored",  # as kube-scheduler counts it for scores: never 0
    "memory_scored",
    "priority",
    "draw",  # a seeded random number in [0, 1), new for each decision
    "gang_placed",  # pods of its gang that have a node
    "gang_left",  # pods of its gang that still need one, it itself included; 0 = no gang
    "latency_soft",  # seconds up to which it does not mind; 0 = it does not say
    "latency_hard",  # seconds from which on a node is as bad as can be; 0 = it does not say
)
POD_CPU, POD_MEMORY, POD_GPU_MILLI, POD_GPU_COUNT, POD_CPU_SCORED, POD_MEMORY_SCORED, POD_PRIORITY, POD_DRAW = range(8)
POD_GANG_PLACED, POD_GANG_LEFT, POD_LATENCY_SOFT, POD_LATENCY_HARD = range(8, 12)

NODE_FEATURES = (
    "cpu_free",
    "cpu_capacity",
    "memory_free",
    "memory_capacity",
    "pods_free",
    "pods_capacity",
    "gpu_free",  # milli over all devices
    "gpu_count",
    "gpu_idle",  # devices nobody uses
    "gpu_largest",  # most milli left on one device
    "gpu_model",  # index into the cluster's models, -1 = none
    "gpu_kinds",  # bit mask of the kinds of GPU pods on the node: bit 0 share, bit n = n devices
    "cpu_scored",
    "memory_scored",
    "last_placed",  # sequence number of the newest placement, 0 = never
    "rank",  # position in the order that breaks ties
    "gang_on_node",  # placed pods of the gang of the pod in question: here,
    "gang_in_rack",  # in the same rack (those on the node count),
    "gang_in_zone",  # in the same zone (those in the rack count)
    "gang_rack_room",  # pods of its shape that the rack could still take
    "rack",  # index of the rack, -1 = not known
    "zone",
    "load",  # measured use of the node, 0..1, where somebody measures it; else 0
    "load_cpu",  # what it is made of: share of the CPUs in use,
    "load_memory",  # share of the memory in use,
    "load_receive",  # bytes per second over the network, in
    "load_transmit",  # and out,
    "load_connections",  # open TCP connections,
    "load_gpu",  # share of its GPUs' time in use,
    "load_gpu_memory",  # share of their memory,
    "load_latency",  # seconds that a probe of the node takes
    "load_age",  # seconds since the oldest of these was measured; -1 = not measured, or too long ago
)
CPU_FREE, CPU_CAPACITY, MEMORY_FREE, MEMORY_CAPACITY, PODS_FREE, PODS_CAPACITY = range(6)
GPU_FREE, GPU_COUNT, GPU_IDLE, GPU_LARGEST, GPU_MODEL, GPU_KINDS = range(6, 12)
CPU_SCORED, MEMORY_SCORED, LAST_PLACED, RANK, GANG_ON_NODE, GANG_IN_RACK, GANG_IN_ZONE = range(12, 19)
GANG_RACK_ROOM, RACK, ZONE, LOAD = range(19, 23)
LOAD_CPU, LOAD_MEMORY, LOAD_RECEIVE, LOAD_TRANSMIT, LOAD_CONNECTIONS = range(23, 28)
LOAD_GPU, LOAD_GPU_MEMORY, LOAD_LATENCY, LOAD_AGE = range(28, 32)


# Filled per decision, by kernels.neighbours.
GANG_COLUMNS = NODE_FEATURES[GANG_ON_NODE : GANG_RACK_ROOM + 1]
POD_GANG_COLUMNS = POD_FEATURES[POD_GANG_PLACED : POD_GANG_LEFT + 1]


@inlined_inner
def encode_node(cluster: ClusterArrays, n: int, rank: int, node_NF: FloatArray) -> None:
    """Writes the feature row of node n, but for the columns that others fill: those about gangs, and the load."""
    free, largest, idle = 0, 0, 0
    for d in range(cluster.device_count_N[n]):
        left = cluster.device_left_ND[n, d]
        free += left
        largest = max(largest, left)
        idle += left == 1000
    kinds = 0
    for t in range(cluster.kind_count_NT.shape[1]):
        if cluster.kind_count_NT[n, t] > 0:
            kinds |= 1 << t
    node_NF[n, CPU_FREE] = cluster.free_NR[n, 0]
    node_NF[n, CPU_CAPACITY] = cluster.capacity_NR[n, 0]
    node_NF[n, MEMORY_FREE] = cluster.free_NR[n, 1]
    node_NF[n, MEMORY_CAPACITY] = cluster.capacity_NR[n, 1]
    node_NF[n, PODS_FREE] = cluster.free_NR[n, 2]
    node_NF[n, PODS_CAPACITY] = cluster.capacity_NR[n, 2]
    node_NF[n, GPU_FREE] = free
    node_NF[n, GPU_COUNT] = cluster.device_count_N[n]
    node_NF[n, GPU_IDLE] = idle
    node_NF[n, GPU_LARGEST] = largest
    node_NF[n, GPU_MODEL] = cluster.model_N[n]
    node_NF[n, GPU_KINDS] = kinds
    node_NF[n, CPU_SCORED] = cluster.scored_used_N2[n, 0]
    node_NF[n, MEMORY_SCORED] = cluster.scored_used_N2[n, 1]
    node_NF[n, LAST_PLACED] = cluster.last_placed_N[n]
    node_NF[n, RANK] = rank
    node_NF[n, RACK] = cluster.rack_N[n]
    node_NF[n, ZONE] = cluster.zone_N[n]


@kernel
def encode_all(cluster: ClusterArrays, rank_N: IntArray, node_NF: FloatArray) -> None:
    for n in range(node_NF.shape[0]):
        encode_node(cluster, n, rank_N[n], node_NF)


@kernel
def encode_some(cluster: ClusterArrays, rank_N: IntArray, nodes: IntArray, node_NF: FloatArray) -> None:
    for i in range(nodes.shape[0]):
        encode_node(cluster, nodes[i], rank_N[nodes[i]], node_NF)


@kernel
def random_unit(seed: int, sequence: int) -> float:
    """A number in [0, 1) from two integers: 48 bits mixed in three rounds, the same on every machine."""
    z = (int(seed) * 0x9E3779B9 + int(sequence) * 0x85EBCA6B + 0x165667B1) & 0xFFFFFFFFFFFF
    for _ in range(3):
        z ^= z >> 23
        z = (z * 0x2545F491) & 0xFFFFFFFFFFFF
        z ^= z >> 19
    return z / DRAW_STEPS
