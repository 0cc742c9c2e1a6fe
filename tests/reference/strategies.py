"""Small clusters and workloads for hypothesis. Few distinct numbers on purpose: ties and exact steps must be common."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pilotage.kernels.fragmentation import Typical, typical_tables
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.constraints import Constraints, Taint, Toleration
from pilotage.model.workload import FOREVER, Gang, Pod, PodShape, Workload
from pilotage.workloads.topology import RACK_LABEL, ZONE_LABEL
from reference.fragmentation import TypicalPod
from reference.machines import MIB, WHOLE, View, cpu_for_scores, may_use_model, memory_for_scores

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
_MORE = int(os.environ.get("PILOTAGE_TEST_EXAMPLES", "0"))  # a factor; fresh examples instead of the fixed ones

Test = TypeVar("Test", bound=Callable[..., None])

MODELS = ("A", "B", "C")
NIC = "example.com/nic"
MEMORY = 256 * MIB

# Zone and rack of a node: racks of the same name in two zones, and nodes that tell only one of the two or neither.
STANDS = [("a", "1"), ("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("b", ""), ("", "1"), ("", "")]

cpu_amounts = st.sampled_from([0, 500, 1000, 1500, 2000, 3000, 4000, 8000])
milli_parts = st.one_of(st.sampled_from([100, 250, 300, 500, 700, 750]), st.integers(1, WHOLE - 1))
wanted_models = st.sampled_from(["", "", "", "A", "B", "A|B", "B|A|A", "|C|", "D"])


def checked(examples: int) -> Callable[[Test], Test]:
    """The same examples on every machine; fewer where kernels run as plain Python."""
    count = max(1, (examples if COMPILED else examples // 4) * max(1, _MORE))
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=not _MORE,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@st.composite
def gpu_requests(draw: st.DrawFn, most: int = 8) -> tuple[int, int]:
    """(milli, count): none, a part, whole devices, parts of several devices."""
    kind = draw(st.sampled_from(["cpu", "part", "part", "whole", "several", "parts"]))
    if kind == "cpu":
        return 0, 0
    if kind == "part":
        return draw(milli_parts), 1
    if kind == "whole":
        return WHOLE, 1
    count = draw(st.integers(2, most))
    return (WHOLE, count) if kind == "several" else (draw(milli_parts), count)


@st.composite
def preset_devices(draw: st.DrawFn, count: int) -> int:
    """Mostly any, now and then a mask of `count` devices, which not every node has."""
    if draw(st.integers(0, 5)) > 0:
        return 0
    return sum(1 << d for d in draw(st.permutations(range(count + 1)))[:count])


@st.composite
def shapes(draw: st.DrawFn, nodes: Sequence[str] = (), most: int = 8) -> PodShape:
    """Pods that know the nodes may have constraints or name their devices."""
    milli, count = draw(gpu_requests(most))
    constraints = Constraints()
    if nodes:
        odd = draw(st.integers(0, 11))
        if odd == 0:
            constraints = Constraints(node_name=draw(st.sampled_from(nodes)))
        elif odd < 3:
            constraints = Constraints(tolerations=(Toleration(operator="Exists"),))
    return PodShape(
        cpu_milli=draw(cpu_amounts),
        memory_bytes=draw(st.integers(0, 4)) * MEMORY,
        gpu_milli=milli,
        gpu_count=count,
        gpu_models=draw(wanted_models) if count else "",
        gpu_devices=draw(preset_devices(count)) if nodes and count else 0,
        extended=((NIC, draw(st.integers(0, 2))),) if draw(st.integers(0, 9)) == 0 else (),
        priority=draw(st.integers(-1, 2)),
        constraints=constraints,
    )


@st.composite
def node_lists(draw: st.DrawFn, most: int = 8) -> list[Node]:
    result: list[Node] = []
    keys = (ZONE_LABEL, RACK_LABEL)
    for n in range(draw(st.integers(1, most))):
        if n > 0 and draw(st.booleans()):  # clusters have many nodes of a kind
            result.append(replace(result[-1], name=f"n{n}"))
            continue
        gpus = draw(st.sampled_from([0, 1, 2, 2, 3, 4, 8]))
        result.append(
            Node(
                name=f"n{n}",
                cpu_milli=draw(st.sampled_from([0, 2000, 4000, 8000, 16000, 130000])),
                memory_bytes=draw(st.integers(0, 12)) * MEMORY,
                pods=draw(st.sampled_from([1, 2, 5, 110])),
                gpu_count=gpus,
                gpu_model=draw(st.sampled_from(["", *MODELS])),
                extended=((NIC, draw(st.integers(0, 3))),) if draw(st.booleans()) else (),
                labels=tuple(
                    (key, text) for key, text in zip(keys, draw(st.sampled_from(STANDS)), strict=True) if text
                ),
                taints=(Taint("only"),) if draw(st.integers(0, 9)) == 0 else (),
            )
        )
    return result


@st.composite
def typical_lists(draw: st.DrawFn, simple: bool = False) -> list[TypicalPod]:
    """Weights that do not add exactly. `simple`: without parts of several devices."""
    count = draw(st.integers(0, 8))
    weights = [draw(st.integers(1, 50)) for _ in range(count)]
    result = []
    for weight in weights:
        milli, devices = draw(gpu_requests())
        if simple and devices > 1:
            milli = WHOLE
        models = draw(wanted_models) if devices else ""
        result.append(TypicalPod(draw(cpu_amounts), milli, devices, models, weight / sum(weights)))
    return result


def kernel_typical(typical: Sequence[TypicalPod], models: Sequence[str], devices: int) -> Typical:
    """Typical pods as the kernels want them."""
    access = [[may_use_model(pod.models, model) for model in ("", *models)] for pod in typical]
    return typical_tables(
        np.array([pod.cpu for pod in typical], np.int64),
        np.array([pod.milli for pod in typical], np.int64),
        np.array([pod.count for pod in typical], np.int64),
        np.array([pod.weight for pod in typical], np.float64),
        np.array(access, np.bool_).reshape(len(typical), len(models) + 1),
        devices,
    )


@st.composite
def used_clusters(draw: st.DrawFn, most: int = 8) -> tuple[ClusterState, list[View]]:
    """A cluster in any state, however it came about, and the same node by node for the twins."""
    state = ClusterState(draw(node_lists(most)))
    arrays, views = state.arrays, []
    for n, node in enumerate(state.nodes):
        one = st.one_of(st.sampled_from([0, 200, 250, 500, 700, 1000, 1000, 1000]), st.integers(0, WHOLE))
        lefts = [draw(one) for _ in range(node.gpu_count)]
        kinds = draw(st.sets(st.integers(0, node.gpu_count), max_size=3)) if node.gpu_count else set()
        view = View(
            cpu_capacity=node.cpu_milli,
            memory_capacity=node.memory_bytes,
            cpu_free=draw(st.one_of(st.just(node.cpu_milli), st.integers(-2000, node.cpu_milli))),
            memory_free=draw(st.integers(0, node.memory_bytes // MEMORY)) * MEMORY,
            lefts=lefts,
            model=node.gpu_model if node.gpu_count else "",
            tags={"share-gpu" if kind == 0 else f"{kind}-gpu" for kind in kinds},
            last_placed=draw(st.integers(0, 5)),
            rank=n,
        )
        view.cpu_scored = node.cpu_milli - view.cpu_free + draw(st.integers(0, 3)) * cpu_for_scores(PodShape())
        view.memory_scored = draw(st.integers(0, 12)) * MEMORY + memory_for_scores(PodShape())
        arrays.free_NR[n, :2] = view.cpu_free, view.memory_free
        arrays.free_NR[n, 2] = draw(st.integers(0, node.pods))
        for r in range(3, len(state.resources)):
            arrays.free_NR[n, r] = draw(st.integers(0, int(arrays.capacity_NR[n, r])))
        arrays.device_left_ND[n, : node.gpu_count] = lefts
        for kind in kinds:
            arrays.kind_count_NT[n, kind] = draw(st.integers(1, 3))
        arrays.scored_used_N2[n] = view.cpu_scored, view.memory_scored
        arrays.last_placed_N[n] = view.last_placed
        arrays.alive_N[n] = draw(st.integers(0, 9)) > 0
        views.append(view)
    return state, views


@st.composite
def gang_lists(draw: st.DrawFn, pods: int) -> list[Gang | None]:
    """For each pod its gang; of up to three gangs, some of a single pod."""
    names = draw(st.lists(st.sampled_from(["", "", "x", "y", "z"]), min_size=pods, max_size=pods))
    sizes = Counter(names)
    return [Gang(name, sizes[name]) if name else None for name in names]


NodeEvents = list[tuple[float, str, bool]]


@st.composite
def timed_cases(
    draw: st.DrawFn,
    pods: int = 30,
    most: int = 6,
    forever: bool = True,
    recover: bool = False,
    gangs: bool = False,
) -> tuple[list[Node], Workload, NodeEvents]:
    """Nodes, pods in order of arrival (many at one moment, some of no duration), node failures and recoveries."""
    nodes = draw(node_lists(most))
    names = [node.name for node in nodes]
    kinds = draw(st.lists(shapes(names, most=3), min_size=1, max_size=7))
    moments = st.integers(0, 15).map(float)
    durations = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 0.3, *([FOREVER] if forever else [])])
    times = sorted(draw(st.lists(moments, min_size=1, max_size=pods)))
    mates = draw(gang_lists(len(times))) if gangs else [None] * len(times)
    listed = [
        Pod(f"p{i}", draw(st.sampled_from(kinds)), arrival=time, duration=draw(durations), gang=mates[i])
        for i, time in enumerate(times)
    ]
    events = draw(st.lists(st.tuples(moments, st.sampled_from(names), st.booleans()), max_size=6))
    if recover:
        events += [(40.0, name, True) for name in names]
    return nodes, Workload.of(listed, timed=True), events


@st.composite
def gang_cases(draw: st.DrawFn) -> tuple[list[Node], Workload, NodeEvents]:
    """Nodes that all have room for several of the pods, most of which are in gangs: places are what decides."""
    stands = draw(st.lists(st.sampled_from(STANDS), min_size=4, max_size=10))
    keys, big = (ZONE_LABEL, RACK_LABEL), 100 * MEMORY
    labels = [tuple((key, text) for key, text in zip(keys, stand, strict=True) if text) for stand in stands]
    nodes = [
        Node(f"n{n}", draw(st.sampled_from([2000, 3000, 4000])), big, gpu_count=2, labels=labels[n])
        for n in range(len(stands))
    ]
    kinds = [PodShape(1000, priority=1), PodShape(500, 0, 400, 1), PodShape(1000, 0, WHOLE, 1)]
    times = sorted(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0]), min_size=10, max_size=30)))
    mates = draw(gang_lists(len(times)))
    durations = st.sampled_from([1.0, 2.0, 3.0, 5.0])
    listed = [
        Pod(f"p{i}", draw(st.sampled_from(kinds)), arrival=time, duration=draw(durations), gang=mates[i])
        for i, time in enumerate(times)
    ]
    moments, names = st.sampled_from([0.5, 2.0, 3.0, 5.0]), st.sampled_from([node.name for node in nodes])
    return nodes, Workload.of(listed, timed=True), draw(st.lists(st.tuples(moments, names, st.booleans()), max_size=4))
