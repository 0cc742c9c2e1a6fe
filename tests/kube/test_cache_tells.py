"""What the cache tells: what listeners hear, what is short on a node, which nodes have changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kube.objects import a_node, a_pod
from pilotage.kube.cache import MOST_ASKED, ClusterCache, Listener, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.podview import read_pod
from pilotage.model.cluster import Node
from pilotage.model.errors import StateError
from pilotage.model.workload import FloatArray, PodShape

SHARE = {"alibabacloud.com/gpu-milli": "600", "alibabacloud.com/gpu-count": "1"}
GPU = "alibabacloud.com/gpu-index"


class Ears(Listener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

        def note(what: str) -> Any:
            def say(*about: Any) -> None:
                self.heard.append(" ".join([what, *(getattr(one, "name", one) for one in about)]))

            return say

        names = ("pod_waits", "pod_settled", "room_made", "pod_came", "overcommit", "rejected", "before_bound")
        super().__init__(**{name: note(name.replace("_", " ")) for name in names})

    def since(self) -> list[str]:
        heard, self.heard[:] = list(self.heard), []
        return heard


def following(*nodes: dict[str, Any]) -> tuple[ClusterCache, PodFollower, Ears]:
    ears = Ears()
    cache = ClusterCache(listener=ears)
    NodeFollower(cache).listed(list(nodes))
    cache.refresh()
    ears.since()
    return cache, PodFollower(cache), ears


def assumed(cache: ClusterCache, pods: PodFollower, n: int, devices: int = 0, **more: Any) -> None:
    pods.changed(a_pod("p", **more))
    cache.assume(cache.pods["uid-p"], n, devices, 1)


# A binding that was assumed


@pytest.mark.parametrize("index", [None, "1"], ids=["no devices are told", "those devices are told"])
def test_our_binding_is_confirmed_and_makes_no_room(index: str | None) -> None:
    cache, pods, ears = following(a_node("n0", gpus=2), a_node("n1", gpus=2))
    assumed(cache, pods, 0, 0b10, annotations=SHARE)
    changes = cache.changes
    ears.since()
    told = {} if index is None else {GPU: index}
    pods.changed(a_pod("p", node="n0", annotations=SHARE | told))
    assert ears.since() == ["pod settled p", "pod came p"]
    assert not cache.state.assumed("uid-p")
    assert cache.changes == changes
    assert cache.state.arrays.device_left_ND.tolist() == [[1000, 400], [1000, 1000]]


@pytest.mark.parametrize(
    ("where", "devices", "node", "index"),
    [(0, 0b10, "n1", "1"), (1, 0b10, "n0", "1"), (0, 0b10, "n0", "0"), (0, 0b01, "n0", "1"), (0, 0b10, "n1", None)],
)
def test_a_pod_that_went_elsewhere_is_counted_there_and_makes_room(
    where: int, devices: int, node: str, index: str | None
) -> None:
    cache, pods, ears = following(a_node("n0", gpus=2), a_node("n1", gpus=2))
    assumed(cache, pods, where, devices, annotations=SHARE)
    ears.since()
    told = {} if index is None else {GPU: index}
    pods.changed(a_pod("p", node=node, annotations=SHARE | told))
    assert "room made pod went elsewhere" in ears.since()
    assert not cache.state.assumed("uid-p")
    placement = cache.state.placement("uid-p")
    assert placement is not None
    assert (cache.state.nodes[placement.node].name, placement.devices) == (node, 0b10 if index == "1" else 0b1)
    assert int(cache.state.arrays.device_left_ND.sum()) == 4 * 1000 - 600


def test_a_binding_that_somebody_else_made_is_told_before_it_counts() -> None:
    cache, pods, ears = following(a_node("n0"))
    pods.changed(a_pod("p"))
    pods.changed(a_pod("p", node="n0"))
    assert ears.since() == ["pod waits p", "before bound p n0", "pod settled p", "pod came p"]
    pods.changed(a_pod("q", node="n0"))  # never seen waiting
    pods.changed(a_pod("q", node="n0"))  # nothing new
    assert ears.since() == ["pod settled q", "pod came q"]
    pods.changed(a_pod("r"))
    cache.assume(cache.pods["uid-r"], 0, 0, 1)
    ears.since()
    pods.changed(a_pod("r", node="n0"))  # ours
    assert ears.since() == ["pod settled r", "pod came r"]


# A bound pod that changes


def test_a_resized_pod_is_counted_anew_and_may_make_room() -> None:
    cache, pods, ears = following(a_node("n0"))
    pods.changed(a_pod("p", node="n0", requests={"cpu": "4"}))
    ears.since()
    pods.changed(a_pod("p", node="n0", requests={"cpu": "4"}))
    assert ears.since() == []
    for cpu in ("1", "6"):  # less, and more
        pods.changed(a_pod("p", node="n0", requests={"cpu": cpu}))
        assert ears.since() == ["room made pod resized"]
        assert cache.state.arrays.free_NR[0, 0] == 8000 - 1000 * int(cpu)


def test_new_labels_are_known_to_rules_between_pods() -> None:
    cache, pods, ears = following(a_node("n0"))
    for label in ("m", "a", "z"):
        pods.changed(a_pod("p", node="n0", labels={"app": label}))
        (kind,) = cache.neighbours.kinds.values()
        assert (kind.labels, kind.deleting, dict(kind.nodes)) == ({"app": label}, False, {"n0": 1})
    assert ears.since() == ["pod settled p", "pod came p", *["room made pod changed"] * 2]


def test_a_pod_that_is_told_to_go_is_told_of_once() -> None:
    cache, pods, ears = following(a_node("n0"))
    pods.changed(a_pod("p", node="n0", labels={"app": "x"}))
    ears.since()
    for _ in range(2):
        pods.changed(a_pod("p", node="n0", labels={"app": "x"}, deletionTimestamp="2026-01-01T00:00:09Z"))
    assert ears.since() == ["pod came p"]
    (kind,) = cache.neighbours.kinds.values()
    assert kind.deleting


def test_a_pod_that_went_while_it_was_assumed_gives_its_room_back() -> None:
    cache, pods, ears = following(a_node("n0"))
    assumed(cache, pods, 0)
    ears.since()
    pods.deleted(a_pod("p"))
    assert ears.since() == ["room made pod gone", "pod settled p"]
    assert (cache.state.arrays.free_NR == cache.state.arrays.capacity_NR).all()
    pods.changed(a_pod("q"))
    ears.since()
    pods.deleted(a_pod("q"))  # took nothing
    pods.deleted(a_pod("q"))  # is not known any more
    assert ears.since() == ["pod settled q"]


def test_only_what_is_assumed_can_be_forgotten() -> None:
    cache, pods, _ = following(a_node("n0"))
    pods.changed(a_pod("p", node="n0"))
    cache.forget("uid-p")
    assert cache.state.placement("uid-p") is not None
    cache.forget("uid-unknown")


# What is short


def test_what_is_short_is_said_in_words() -> None:
    said: list[str] = []
    cache = ClusterCache(listener=Listener(overcommit=lambda pod, what: said.append(f"{pod.name}: {what}")))
    NodeFollower(cache).listed([a_node("n0", cpu="1", gpus=2, pods=2), a_node("n1", gpus=1)])
    cache.refresh()
    pods = PodFollower(cache)
    pods.changed(a_pod("exactly", node="n0", requests={"cpu": "1"}))
    pods.changed(a_pod("full", node="n1", requests={"cpu": "1"}, annotations={**SHARE, GPU: "0"}))
    assert said == []
    pods.changed(a_pod("cpu", node="n0", requests={"cpu": "1m"}))
    assert said == ["cpu: 1 cpu"]  # the last place for a pod is taken, and that is all right
    pods.changed(a_pod("gpu", node="n1", annotations={**SHARE, "alibabacloud.com/gpu-milli": "401", GPU: "0"}))
    assert said[1:] == ["gpu: 1 milli of GPU 0"]
    assert cache.overcommitted == 2


@pytest.mark.parametrize("annotations", [{}, {**SHARE, GPU: "0"}], ids=["CPU", "GPU"])
def test_what_is_only_claimed_is_not_short(annotations: dict[str, str]) -> None:
    """A pod on room that another was promised takes nothing from a pod that is there."""
    cache, pods, ears = following(a_node("n0", cpu="2", gpus=1), a_node("n1", gpus=1))
    pods.changed(a_pod("claims", requests={"cpu": "2"}, annotations=annotations))
    cache.claims.set(cache.pods["uid-claims"], "n0")
    ears.since()
    pods.changed(a_pod("comes", node="n0", requests={"cpu": "2"}, annotations=annotations))
    assert cache.overcommitted == 0
    pods.changed(a_pod("too much", node="n0", requests={"cpu": "1m"}, annotations=annotations))
    assert cache.overcommitted == 1
    assert any(said.startswith("overcommit too much") for said in ears.since())


def test_a_node_may_be_short_of_everything() -> None:
    cache, pods, _ = following(a_node("n0", cpu="1", pods=1))
    for name in ("a", "b"):
        pods.changed(a_pod(name, node="n0", requests={"cpu": "1", "memory": "20Gi"}))
    assert (cache.state.arrays.free_NR < 0).all()
    assert cache.overcommitted == 1


def test_a_device_may_be_full_where_a_part_of_it_is_claimed() -> None:
    cache, pods, _ = following(a_node("n0", gpus=1))
    whole = {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "1", GPU: "0"}
    pods.changed(a_pod("claims", annotations=SHARE))
    cache.claims.set(cache.pods["uid-claims"], "n0")
    pods.changed(a_pod("comes", node="n0", annotations=whole))
    assert cache.overcommitted == 0
    pods.changed(a_pod("too much", node="n0", annotations=whole))
    assert cache.overcommitted == 1


def test_of_what_is_asked_for_too_many_names_the_known_ones_are_counted() -> None:
    cache, pods, _ = following(a_node("n0", offered={"example.com/nic": "4"}))
    names = [f"example.com/r{number}" for number in range(MOST_ASKED + 1)]
    assert cache.ask_for(PodShape(extended=tuple((name, 1) for name in names[:-3])))
    assert not cache.ask_for(PodShape(extended=tuple((name, 1) for name in names[-3:])))  # one too many
    assert cache.ask_for(PodShape(extended=tuple((name, 1) for name in names[-3:-1])))
    cache.refresh()
    pods.changed(a_pod("p", node="n0", requests={"example.com/nic": "1", names[-1]: "1"}))
    placement = cache.state.placement("uid-p")
    assert placement is not None
    assert placement.shape.extended == (("example.com/nic", 1),)
    assert cache.state.arrays.free_NR[0, cache.state.resources.index("example.com/nic")] == 3


# Devices


@pytest.mark.parametrize(
    ("mask", "shape", "devices"),
    [
        (0b100, PodShape(gpu_milli=500, gpu_count=1), 0b100),  # the named one
        (0b101, PodShape(gpu_milli=500, gpu_count=1), 0b010),  # two for one: the lowest with room
        (0b100, PodShape(gpu_milli=500, gpu_count=2), 0b110),
        (0b1000, PodShape(gpu_milli=500, gpu_count=1), 0b010),  # there is no such device
        (0, PodShape(gpu_milli=1000, gpu_count=2), 0b101),  # one is whole; for the other the lowest must do
        (0, PodShape(gpu_milli=400, gpu_count=1), 0b10),
        (0, PodShape(gpu_milli=0, gpu_count=1), 0b100),
        (0, PodShape(), 0),
    ],
)
def test_devices_are_the_named_ones_or_the_lowest_with_room(mask: int, shape: PodShape, devices: int) -> None:
    cache, _, _ = following(a_node("n0", gpus=3))
    cache.state.arrays.device_left_ND[0] = [300, 500, 1000]
    assert cache.devices_for(mask, shape, 0) == devices


def test_devices_and_resources_that_a_node_does_not_have_are_not_counted_on_it() -> None:
    cache, pods, _ = following(a_node("n0", gpus=1), a_node("n1", gpus=2))
    two = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
    pods.changed(a_pod("a", node="n0", **two))
    pods.changed(a_pod("b", node="n1", **two))
    assert cache.state.arrays.device_left_ND.tolist() == [[1000, 0], [0, 0]]
    placement = cache.state.placement("uid-a")
    assert placement is not None
    assert (placement.shape.gpu_count, placement.shape.gpu_milli, placement.devices) == (0, 0, 0)


# Nodes, and what policies keep


def test_nodes_that_go_take_their_pods_along_and_bring_them_back() -> None:
    cache, pods, ears = following(a_node("n0"), a_node("n1"))
    pods.changed(a_pod("p", node="n0", labels={"app": "x"}))
    ears.since()
    NodeFollower(cache).deleted(a_node("n0"))
    NodeFollower(cache).deleted(a_node("n0"))  # nothing new
    assert ears.since() == ["room made node gone"]
    cache.refresh()
    assert [node.name for node in cache.state.nodes] == ["n1"]
    assert cache.neighbours.kinds == {}
    NodeFollower(cache).listed([a_node("n0")])
    assert ears.since() == ["room made node gone", "room made node added"]
    cache.refresh()
    assert [node.name for node in cache.state.nodes] == ["n0"]
    assert [dict(kind.nodes) for kind in cache.neighbours.kinds.values()] == [{"n0": 1}]


def test_all_labels_of_a_node_are_kept() -> None:
    cache, _, _ = following(a_node("n0", labels={"pool": "x", "nvidia.com/gpu.product": "T4"}))
    labels = {"kubernetes.io/hostname": "n0", "nvidia.com/gpu.product": "T4", "pool": "x"}
    assert dict(cache.state.nodes[0].labels) == labels
    bare = a_node("n1")
    del bare["metadata"]["labels"]
    NodeFollower(cache).changed(bare)
    cache.refresh()
    assert cache.state.nodes[1].labels == ()


def test_what_is_kept_for_other_nodes_holds_no_more() -> None:
    cache, _, _ = following(a_node("n0"))
    epoch = cache.epoch
    cache.put_node(Node("n0", 9000, 32 * 2**30))
    cache.refresh()
    assert cache.epoch > epoch
    epoch = cache.epoch
    cache.put_node(Node("n0", 9000, 32 * 2**30))  # as it is
    cache.refresh()
    assert cache.epoch == epoch
    cache.set_nodes([Node("other", 1000, 1)])
    assert [node.name for node in cache.state.nodes] == ["other"]
    assert cache.epoch > epoch


def test_changed_nodes_are_told_in_order() -> None:
    cache, pods, _ = following(*(a_node(f"n{n}") for n in range(3)))
    assert cache.changes == 0
    for name, node in (("a", "n2"), ("b", "n0"), ("c", "n0"), ("d", "n1")):
        pods.changed(a_pod(name, node=node))
    assert cache.changes == 4
    assert cache.changed_L.tolist() == [1, 0, 0]  # a ring: the fourth took the place of the first


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_after_a_measurement_no_kept_score_holds(nodes: int) -> None:
    seen: list[float] = []

    def measured(nodes: tuple[Node, ...], node_NF: FloatArray) -> None:
        seen.append(len(nodes))

    cache = ClusterCache(measured=measured)
    NodeFollower(cache).listed([a_node(f"n{n}") for n in range(nodes)])
    cache.refresh()
    before = cache.changes
    cache.measure()
    assert seen == [0, nodes, nodes]
    assert cache.changes - before > len(cache.changed_L)  # more than the ring remembers


def test_pods_that_wait_have_no_node_and_no_room_yet() -> None:
    cache, pods, _ = following(a_node("n0"))
    pods.changed(a_pod("waits"))
    pods.changed(a_pod("bound", node="unknown"))
    pods.changed(a_pod("p"))
    cache.assume(cache.pods["uid-p"], 0, 0, 7)
    assert [pod.name for pod in cache.waiting()] == ["waits"]
    assert cache.state.arrays.last_placed_N.tolist() == [7]


def test_a_lifted_pod_can_be_put_back() -> None:
    cache, pods, _ = following(a_node("n0", gpus=1))
    pods.changed(a_pod("p", node="n0", annotations=SHARE))
    full = cache.state.arrays.free_NR.copy()
    placement = cache.lift("uid-p")
    assert (cache.state.arrays.free_NR == cache.state.arrays.capacity_NR).all()
    cache.put_back(cache.pods["uid-p"], placement)
    np.testing.assert_array_equal(cache.state.arrays.free_NR, full)
    with pytest.raises(StateError, match="'nobody' has no node"):
        cache.lift("nobody")


def test_finished_pods_and_pods_that_do_not_wait_are_settled() -> None:
    cache, _, ears = following(a_node("n0"))
    gated = a_pod("gated", schedulingGates=[{"name": "g"}])
    cache.take(read_pod(gated))
    assert ears.since() == ["pod settled gated"]


# Lists, and namespaces


def test_what_a_list_does_not_have_is_gone() -> None:
    cache, pods, ears = following(a_node("n0"))
    pods.listed([a_pod("a", node="n0"), a_pod("b", node="n0")])
    ears.since()
    pods.listed([a_pod("b", node="n0")])
    assert list(cache.pods) == ["uid-b"]
    assert ears.since() == ["room made pod gone", "pod settled a"]


def test_namespaces_are_followed_by_their_labels() -> None:
    def of(name: str, **labels: str) -> dict[str, Any]:
        return {"metadata": {"name": name, **({"labels": labels} if labels else {})}}

    cache, _, ears = following()
    spaces = NamespaceFollower(cache)
    spaces.listed([of("a", team="x"), of("b")])
    assert cache.namespaces == {"a": {"team": "x"}, "b": {}}
    assert ears.since() == ["room made namespace changed"] * 2
    spaces.changed(of("a", team="x"))
    assert ears.since() == []
    for team in ("a", "z"):
        spaces.changed(of("a", team=team))
        assert (cache.namespaces["a"], ears.since()) == ({"team": team}, ["room made namespace changed"])
    spaces.listed([of("b")])
    assert cache.namespaces == {"b": {}}
    spaces.deleted(of("b"))
    spaces.deleted(of("b"))
    assert cache.namespaces == {}


def test_a_promise_that_somebody_takes_back_or_moves_makes_room() -> None:
    _, pods, ears = following(a_node("n0"), a_node("n1"))
    for promised, heard in [
        ("n0", []),
        ("n0", []),
        ("n1", ["room made claim dropped"]),
        ("", ["room made claim dropped"]),
    ]:
        found = a_pod("p")
        found["status"]["nominatedNodeName"] = promised
        pods.changed(found)
        assert ears.since() == [*heard, "pod waits p"]
