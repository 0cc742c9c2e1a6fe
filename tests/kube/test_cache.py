"""The cache: whatever happens in whatever order, its arrays are those of the pods that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import a_node, a_pod
from pilotage.kube.cache import MOST_ASKED, ClusterCache, NodeFollower, PodFollower
from pilotage.kube.podview import read_pod
from pilotage.model.cluster import ClusterState

NAMES = ("n0", "n1", "n2")
PODS = tuple(f"p{i}" for i in range(6))
SHARE = {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-count": "1"}


def pod_of(name: str, node: str | None = None, **more: Any) -> dict[str, Any]:
    """Even pods ask for half a GPU."""
    annotations = dict(SHARE) if int(name[1:]) % 2 == 0 else {}
    annotations |= more.pop("annotations", {})
    placed = {"node": node} if node is not None else {}
    return a_pod(name, annotations=annotations, labels={"app": "x"}, **placed, **more)


actions = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.integers(0, 2), st.sampled_from(["4", "8"])),
    st.tuples(st.just("drop node"), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.sampled_from(PODS)),
    st.tuples(st.just("bound"), st.sampled_from(PODS), st.sampled_from(NAMES)),
    st.tuples(st.just("gone"), st.sampled_from(PODS)),
    st.tuples(st.just("finished"), st.sampled_from(PODS)),
    st.tuples(st.just("assume"), st.sampled_from(PODS), st.sampled_from(NAMES)),
    st.tuples(st.just("forget"), st.sampled_from(PODS)),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("list pods"), st.lists(st.sampled_from(PODS), unique=True)),
)


def carry_out(cache: ClusterCache, action: tuple[Any, ...]) -> None:
    nodes, pods = NodeFollower(cache), PodFollower(cache)
    match action:
        case ("node", name, gpus, cpu):
            nodes.changed(a_node(name, cpu, gpus))
        case ("drop node", name):
            nodes.deleted(a_node(name))
        case ("wait", name):
            known = cache.pods.get(f"uid-{name}")
            if known is None or not known.node:  # a bound pod never waits again
                pods.changed(pod_of(name))
        case ("bound", name, node):
            known = cache.pods.get(f"uid-{name}")
            if known is None or known.node in ("", node):
                pods.changed(pod_of(name, node))
        case ("gone", name):
            pods.deleted(pod_of(name))
        case ("finished", name):
            pods.changed(pod_of(name, "n0", phase="Succeeded"))
        case ("assume", name, node):
            cache.refresh()
            pod, n = cache.pods.get(f"uid-{name}"), cache.state.index.get(node)
            if pod is None or n is None or not pod.waits or cache.state.placement(pod.uid) is not None:
                return
            left_D = cache.state.arrays.device_left_ND[n]
            room = [d for d in range(int(cache.state.arrays.device_count_N[n])) if left_D[d] >= pod.shape.gpu_milli]
            fits = (cache.state.demand(pod.shape).request_R <= cache.state.arrays.free_NR[n]).all()
            if fits and len(room) >= pod.shape.gpu_count:
                cache.assume(pod, n, sum(1 << d for d in room[: pod.shape.gpu_count]), 1)
        case ("forget", name):
            cache.forget(f"uid-{name}")
        case ("refresh",):
            cache.refresh()
        case ("list pods", names):
            bound = {uid.removeprefix("uid-"): pod.node for uid, pod in cache.pods.items() if pod.node}
            pods.listed([pod_of(name, bound.get(name)) for name in names])


def nodes_of(story: list[tuple[Any, ...]]) -> set[str]:
    there = set()
    for kind, *about in story:
        if kind == "node":
            there.add(about[0])
        elif kind == "drop node":
            there.discard(about[0])
    return there


@settings(max_examples=150, deadline=None)
@given(st.lists(actions, max_size=40))
def test_arrays_are_those_of_the_pods_that_are_there(story: list[tuple[Any, ...]]) -> None:
    cache = ClusterCache()
    for action in story:
        carry_out(cache, action)
    cache.refresh()
    assert {node.name for node in cache.state.nodes} == nodes_of(story)
    fresh = ClusterState(cache.state.nodes, cache.state.resources[3:])
    for key, placement in cache.state.placements():
        fresh.add(key, placement.shape, placement.node, placement.devices)
    for name in ("free_NR", "device_left_ND", "kind_count_NT", "scored_used_N2", "capacity_NR"):
        np.testing.assert_array_equal(getattr(cache.state.arrays, name), getattr(fresh.arrays, name), name)
    placed = {key for key, _ in cache.state.placements()}
    expected = {pod.uid for pod in cache.pods.values() if pod.node in cache.state.index or cache.state.assumed(pod.uid)}
    assert placed == expected
    counted = sum(kind.nodes.total() for kind in cache.neighbours.kinds.values())
    assert counted == len(placed)
    ranks = sorted(zip(cache.rank_N.tolist(), (node.name for node in cache.state.nodes), strict=True))
    assert [name for _, name in ranks] == sorted(node.name for node in cache.state.nodes)


def with_nodes(*nodes: dict[str, Any]) -> ClusterCache:
    cache = ClusterCache()
    NodeFollower(cache).listed(list(nodes))
    cache.refresh()
    return cache


def test_a_binding_of_ours_is_confirmed_and_another_one_counted() -> None:
    cache = with_nodes(a_node("n0", gpus=2), a_node("n1", gpus=2))
    pods = PodFollower(cache)
    for name in ("p0", "p2"):
        pods.changed(pod_of(name))
        cache.assume(cache.pods[f"uid-{name}"], 0, 0b10, 1)
    pods.changed(pod_of("p0", "n0", annotations={"alibabacloud.com/gpu-index": "1"}))
    pods.changed(pod_of("p2", "n1", annotations={"alibabacloud.com/gpu-index": "0"}))  # somebody was faster
    assert not cache.state.assumed("uid-p0")
    assert cache.state.arrays.device_left_ND.tolist() == [[1000, 500], [500, 1000]]


def test_pods_that_others_put_where_there_is_no_room_are_counted() -> None:
    cache = with_nodes(a_node("n0", cpu="1"))
    PodFollower(cache).listed([pod_of("p1", "n0"), pod_of("p3", "n0")])
    assert cache.overcommitted == 1
    assert cache.state.arrays.free_NR[0, 0] == -1000


def test_devices_that_nobody_wrote_down_are_the_lowest_with_room() -> None:
    cache = with_nodes(a_node("n0", gpus=2))
    gpu = {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    PodFollower(cache).listed([a_pod("a", node="n0", **gpu), a_pod("b", node="n0", **gpu)])
    assert cache.state.arrays.device_left_ND.tolist() == [[0, 0]]
    assert cache.overcommitted == 0


def test_a_node_that_cannot_be_read_is_left_out_and_named() -> None:
    said: list[str] = []
    cache = ClusterCache(on_problem=said.append)
    NodeFollower(cache).listed([{"metadata": {"name": "bad"}, "spec": {}, "status": {}}, a_node("good")])
    cache.refresh()
    assert [node.name for node in cache.state.nodes] == ["good"]
    assert "node bad is left out" in said[0]


def test_the_listener_hears_of_pods_and_of_room() -> None:
    waits: list[str] = []
    settled: list[str] = []
    room: list[str] = []
    came: list[str] = []
    cache = with_nodes(a_node("n0"))
    cache.listener.pod_waits = lambda pod: waits.append(pod.name)
    cache.listener.pod_settled = lambda pod: settled.append(pod.name)
    cache.listener.room_made = room.append
    cache.listener.pod_came = lambda pod: came.append(pod.name)
    cache.take(read_pod(pod_of("p1")))
    cache.take(read_pod(pod_of("p1", "n0")))
    cache.take(read_pod(pod_of("p1", "n0", phase="Succeeded")))
    NodeFollower(cache).changed(a_node("n0", unschedulable=True))
    assert waits == ["p1"]
    assert settled == ["p1", "p1"]
    assert (came, room) == (["p1"], ["pod gone", "node changed"])


def test_a_bound_pod_may_have_what_no_node_has() -> None:
    """It is counted right from when there is an axis for it, and leaves nothing behind."""
    cache = with_nodes(a_node("n0"))
    pods = PodFollower(cache)
    odd = {"requests": {"cpu": "1", "memory": "1Gi", "example.com/odd": "2"}}
    pods.changed(a_pod("a", node="n0", **odd))
    pods.changed(a_pod("b", node="n1", **odd))  # its node comes later
    pods.changed(a_pod("c", node="n0", **odd))
    NodeFollower(cache).changed(a_node("n1", offered={"example.com/odder": "1"}))
    cache.refresh()
    axis = cache.state.resources.index("example.com/odd")
    assert cache.state.arrays.free_NR[:, [2, axis]].tolist() == [[108, -4], [109, -2]]
    for name in ("a", "b", "c"):
        pods.deleted(a_pod(name))
    assert (cache.state.arrays.free_NR == cache.state.arrays.capacity_NR).all()


def test_invented_resources_do_not_add_up_for_ever() -> None:
    cache = with_nodes(a_node("n0"))
    pods = PodFollower(cache)
    for number in range(2 * MOST_ASKED):
        pods.changed(a_pod(f"p{number}", node="n0", requests={f"example.com/r{number}": "1"}))
        pods.deleted(a_pod(f"p{number}"))
    cache.refresh()
    assert len(cache.state.resources) == 3 + MOST_ASKED
    assert (cache.state.arrays.free_NR == cache.state.arrays.capacity_NR).all()
