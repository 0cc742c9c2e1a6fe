"""Volumes as filters: what is bound, where it may be used, how much a node can attach, and what counts are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kube.objects import a_claim, a_csi_node, a_node, a_pod, a_volume, an_attachment, claiming
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Json
from pilotage.kube.filters import FEATURES, by_rules
from pilotage.kube.podview import read_pod
from pilotage.kube.storage import read_volume
from pilotage.kube.storage_following import ATTACHMENTS, CLAIMS, CSI_NODES, VOLUMES, volume_followers
from pilotage.kube.undecided import undecided
from pilotage.kube.volume_filters import DISK, IN_USE, TOO_MANY_VOLUMES, VOLUME_AFFINITY, VOLUME_ZONE
from pilotage.model.outcome import Scheduled, Unschedulable
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
DRIVER = "ebs"


class Scene:
    """Nodes n0, n1, ... and whatever else a test puts there."""

    def __init__(self, *nodes: Json) -> None:
        self.cache = ClusterCache()
        self.cache.volumes.followed = True
        self.of = volume_followers(self.cache)
        NodeFollower(self.cache).listed(list(nodes) or [a_node(f"n{i}", "64") for i in range(3)])
        self.cache.refresh()
        self.pods = PodFollower(self.cache)
        self.cycle = Cycle(self.cache, {"pilotage": find_policy("first-fit")})

    def disk(self, name: str, driver: str | None = DRIVER, **more: Any) -> None:
        """A claim and its volume, bound to each other."""
        modes = more.pop("modes", ["ReadWriteOnce"])
        self.of[VOLUMES].changed(a_volume(f"pv-{name}", name, **({"driver": driver} if driver else {}), **more))
        self.of[CLAIMS].changed(a_claim(name, f"pv-{name}", modes=modes))

    def runs(self, name: str, node: str, *claims: str, **more: Any) -> None:
        more.setdefault("volumes", claiming(*claims))
        self.pods.changed(a_pod(name, node=node, requests={"cpu": "1"}, **more))

    def out(self, *claims: str, **more: Any) -> dict[str, set[str]]:
        """Nodes that are taken out for a pod with these claims, by reason."""
        more.setdefault("volumes", claiming(*claims))
        pod = read_pod(a_pod("new", requests={"cpu": "1"}, **more))
        names = [node.name for node in self.cache.state.nodes]
        return {
            reason: {name for name, out in zip(names, out_N, strict=True) if out}
            for reason, out_N in by_rules(pod, self.cache)
        }


EVERYWHERE = {"n0", "n1", "n2"}


def hosts(*names: str) -> list[Json]:
    return [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}]


def test_a_local_volume_keeps_its_pod_on_its_node() -> None:
    scene = Scene()
    scene.disk("local", None, terms=hosts("n1"))
    scene.disk("both", None, terms=[*hosts("n0"), *hosts("n1")])
    scene.disk("anywhere", None)
    assert scene.out("anywhere") == {}
    assert scene.out("local") == {VOLUME_AFFINITY: {"n0", "n2"}}
    assert scene.out("both") == {VOLUME_AFFINITY: {"n2"}}
    pod = read_pod(a_pod("new", volumes=claiming("local", "both")))
    assert scene.cycle.attempt(pod) == Scheduled("n1")


@pytest.mark.parametrize(
    ("terms", "out"),
    [
        ([{}], EVERYWHERE),  # a term without expressions is about no node
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}], EVERYWHERE),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]}], set()),
        ([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}], {"n1", "n2"}),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}], {"n0", "n2"}),
    ],
)
def test_node_affinity_of_volumes_as_kube_scheduler_reads_it(terms: list[Json], out: set[str]) -> None:
    scene = Scene(a_node("n0", labels={"disk": "ssd"}), a_node("n1", labels={"size": "4"}), a_node("n2"))
    scene.disk("a", None, terms=terms)
    assert scene.out("a").get(VOLUME_AFFINITY, set()) == out


@pytest.mark.parametrize(
    ("labels", "out"),
    [
        ({ZONE: "a"}, {"n1", "n3"}),
        ({ZONE: "a__b"}, {"n3"}),
        ({ZONE: "a__"}, set()),  # cannot be read: says nothing
        ({OLD_ZONE: "a"}, {"n1", "n3"}),  # a node may have it under the newer name
        ({ZONE: "a", REGION: "r"}, {"n0", "n1"}),
        ({"other": "a"}, set()),
    ],
)
def test_a_volume_of_a_zone_keeps_its_pod_there(labels: dict[str, str], out: set[str]) -> None:
    nodes = [{ZONE: "a"}, {ZONE: "b"}, {}, {OLD_ZONE: "c", REGION: "r"}]
    scene = Scene(*(a_node(f"n{i}", labels=one) for i, one in enumerate(nodes)))
    if REGION in labels:  # the third key of n3 decides
        scene = Scene(*(a_node(f"n{i}", labels=one) for i, one in enumerate([*nodes[:3], {ZONE: "a", REGION: "r"}])))
    scene.disk("a", None, labels=labels)
    assert scene.out("a").get(VOLUME_ZONE, set()) == out


def test_limits_of_drivers_count_each_volume_once() -> None:
    scene = Scene()
    for name in "abcd":
        scene.disk(name)
    scene.disk("x", "other")
    scene.disk("plain", None)
    scene.of[CSI_NODES].listed([a_csi_node("n0", ebs=2), a_csi_node("n1", ebs=3), a_csi_node("n2", ebs=None)])
    scene.runs("one", "n0", "a", "b")
    scene.runs("two", "n0", "b", "x", "plain")
    scene.runs("three", "n1", "a")
    scene.runs("four", "n2", "a", "b", "c", "d")
    assert scene.out("c") == {TOO_MANY_VOLUMES: {"n0"}}
    assert scene.out("c", "b") == {TOO_MANY_VOLUMES: {"n0"}}
    assert scene.out("b", "a") == {}  # they are there already
    assert scene.out("b", "c", "d") == {TOO_MANY_VOLUMES: {"n0", "n1"}}
    assert scene.out("x", "plain") == {}
    scene.pods.deleted(a_pod("one"))
    assert scene.out("c") == {}
    scene.of[CSI_NODES].changed(a_csi_node("n0", ebs=1))
    assert scene.out("c") == {TOO_MANY_VOLUMES: {"n0"}}
    scene.of[CSI_NODES].deleted(a_csi_node("n0"))
    assert scene.out("c") == {}


def test_what_is_attached_without_a_pod_counts_too() -> None:
    scene = Scene()
    for name in "abc":
        scene.disk(name)
    scene.of[CSI_NODES].changed(a_csi_node("n0", ebs=2))
    attached = [an_attachment("1", "n0", DRIVER, "pv-a"), an_attachment("2", "n0", DRIVER, "pv-gone")]
    scene.of[ATTACHMENTS].listed(attached)
    assert scene.out("b") == {}
    assert scene.out("b", "c") == {TOO_MANY_VOLUMES: {"n0"}}
    scene.runs("one", "n0", "a")  # the same volume
    assert scene.out("b") == {}
    assert scene.out("b", "c") == {TOO_MANY_VOLUMES: {"n0"}}
    scene.of[VOLUMES].changed(a_volume("pv-gone", driver=DRIVER))  # was only late
    assert scene.out("b") == {TOO_MANY_VOLUMES: {"n0"}}
    scene.of[ATTACHMENTS].deleted(attached[1])
    assert scene.out("b") == {}


def test_counts_follow_claims_that_come_after_their_pods() -> None:
    scene = Scene()
    scene.disk("b")
    scene.of[CSI_NODES].changed(a_csi_node("n0", ebs=1))
    scene.runs("one", "n0", "a")
    assert scene.out("b") == {}
    scene.of[CLAIMS].changed(a_claim("a", "pv-a"))
    assert scene.out("b") == {}
    scene.of[VOLUMES].changed(a_volume("pv-a", "a", driver=DRIVER))
    assert scene.out("b") == {TOO_MANY_VOLUMES: {"n0"}}
    scene.of[CLAIMS].deleted(a_claim("a"))
    assert scene.out("b") == {}


def test_disks_older_than_csi_count_for_the_driver_that_attaches_them() -> None:
    scene = Scene()
    scene.disk("a", None, awsElasticBlockStore={"volumeID": "aws://zone/vol-1"})
    scene.of[CSI_NODES].changed(a_csi_node("n0", **{"ebs.csi.aws.com": 1}))
    inline = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-2"}}
    scene.runs("one", "n0", volumes=[inline])
    assert scene.out("a") == {TOO_MANY_VOLUMES: {"n0"}}
    assert scene.out("a", volumes=[{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "/x/d"}}]) == {}


def test_a_claim_for_one_pod_alone_has_one() -> None:
    scene = Scene()
    scene.disk("alone", modes=["ReadWriteOncePod"])
    scene.disk("shared")
    assert scene.out("alone", "shared") == {}
    scene.runs("one", "n1", "alone", "shared")
    assert scene.out("alone") == {IN_USE: EVERYWHERE}
    assert scene.out("shared") == {}
    assert scene.out("alone", namespace="other") != {IN_USE: EVERYWHERE}  # another claim of the same name
    waits = read_pod(a_pod("waits", volumes=claiming("alone")))
    assert scene.cycle.attempt(waits) == Unschedulable(((IN_USE, 3),), 3)
    scene.pods.deleted(a_pod("one"))
    assert scene.cycle.attempt(waits) == Scheduled("n0")
    again = read_pod(a_pod("again", volumes=claiming("alone")))
    assert scene.cycle.attempt(again) == Unschedulable(((IN_USE, 3),), 3)  # assumed is in use
    scene.cache.forget("uid-waits")
    assert scene.cycle.attempt(again) == Scheduled("n0")


def test_a_pod_that_uses_a_claim_twice_leaves_it_once() -> None:
    scene = Scene()
    scene.disk("a", modes=["ReadWriteOncePod"])
    scene.runs("one", "n0", "a", "a")
    scene.pods.deleted(a_pod("one"))
    mounts = scene.cache.neighbours.mounts
    assert (mounts.users, mounts.on_node, mounts.disks, mounts._where) == ({}, {}, {}, {})


def image(**more: Any) -> list[Json]:
    return [{"name": "v", "rbd": {"monitors": ["x", "y"], "image": "i", **more}}]


@pytest.mark.parametrize(
    ("there", "new", "conflict"),
    [
        (image(), image(), True),
        (image(), image(monitors=["y", "z"], pool="rbd"), True),
        (image(), image(monitors=["z"]), False),
        (image(), image(pool="p"), False),
        (image(readOnly=True), image(readOnly=True), False),
        (image(readOnly=True), image(), True),
        ([{"name": "v", "iscsi": {"iqn": "q"}}], [{"name": "w", "iscsi": {"iqn": "q"}}], True),
        ([{"name": "v", "iscsi": {"iqn": "q"}}], image(), False),
        (
            [{"name": "v", "awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}],
            [{"name": "v", "awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}],
            True,
        ),
        (
            [{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}],
            [{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}],
            False,
        ),
        (
            [{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "d"}}],
            [{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "d"}}],
            False,
        ),
    ],
)
def test_disks_that_two_pods_of_a_node_may_not_share(there: list[Json], new: list[Json], conflict: bool) -> None:
    scene = Scene()
    scene.runs("one", "n1", volumes=there)
    assert scene.out(volumes=new) == ({DISK: {"n1"}} if conflict else {})


def nothing(scene: Scene) -> None:
    pass


def is_pending(scene: Scene) -> None:
    scene.of[CLAIMS].changed(a_claim("c"))


def is_half_bound(scene: Scene) -> None:
    scene.of[VOLUMES].changed(a_volume("v", "c"))
    scene.of[CLAIMS].changed(a_claim("c", "v", bound=False))


def has_no_volume(scene: Scene) -> None:
    scene.of[CLAIMS].changed(a_claim("c", "v"))


def is_lost(scene: Scene) -> None:
    scene.of[CLAIMS].changed(a_claim("c", "v", phase="Lost"))


def is_deleted(scene: Scene) -> None:
    scene.of[CLAIMS].changed(a_claim("c", "v", deletionTimestamp="2026-01-01T00:00:00Z"))


def is_not_seen(scene: Scene) -> None:
    scene.cache.volumes.followed = False


@pytest.mark.parametrize(
    ("happens", "said", "elsewhere"),
    [
        (nothing, 'persistentvolumeclaim "c" not found', False),
        (is_pending, "claims the volume 'c', which is not bound yet", True),
        (is_half_bound, "claims the volume 'c', which is not bound yet", True),
        (has_no_volume, 'persistentvolume "v" not found', False),
        (is_lost, 'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"', False),
        (is_deleted, 'persistentvolumeclaim "c" is being deleted', False),
        (is_not_seen, "claims the volume 'c', and this scheduler may not see claims", True),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(happens: Callable[[Scene], None], said: str, elsewhere: bool) -> None:
    scene = Scene()
    happens(scene)
    pod = read_pod(a_pod("new", volumes=claiming("c")))
    outcome = scene.cycle.attempt(pod)
    assert isinstance(outcome, Unschedulable)
    assert outcome.message.startswith(f"0/3 nodes are available: {said}")
    assert ("with the extender" in outcome.message) == elsewhere
    assert scene.cycle.candidates(pod) == []
    is_not_seen_again = replace(pod, rules=replace(pod.rules, volumes=replace(pod.rules.volumes, claims=())))
    assert isinstance(scene.cycle.attempt(is_not_seen_again), Scheduled)  # it was the claim


def test_an_ephemeral_volume_is_a_claim_that_the_pod_owns() -> None:
    scene = Scene()
    pod = read_pod(a_pod("new", volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]))
    waits = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "new-data"'
    assert undecided(pod, scene.cache) == waits
    scene.of[CLAIMS].changed(a_claim("new-data", owner="somebody"))
    assert undecided(pod, scene.cache) == "PVC default/new-data was not created for pod default/new (pod is not owner)"
    scene.of[CLAIMS].changed(a_claim("new-data", owner="uid-new"))
    assert "which is not bound yet" in undecided(pod, scene.cache)
    scene.of[VOLUMES].changed(a_volume("v", "new-data", terms=hosts("n2")))
    scene.of[CLAIMS].changed(a_claim("new-data", "v", owner="uid-new"))
    assert scene.cycle.attempt(pod) == Scheduled("n2")


def test_a_list_forgets_what_is_gone() -> None:
    scene = Scene()
    scene.disk("a")
    scene.disk("b")
    scene.of[CSI_NODES].listed([a_csi_node("n0", ebs=1, other=2), a_csi_node("n1", ebs=3)])
    scene.of[ATTACHMENTS].listed([an_attachment("1", "n0", DRIVER, "pv-a"), an_attachment("2", "n1", DRIVER, "pv-a")])
    volumes = scene.cache.volumes
    assert volumes.limits == {"ebs": {"n0": 1, "n1": 3}, "other": {"n0": 2}}
    for path in (CLAIMS, VOLUMES, CSI_NODES, ATTACHMENTS):
        scene.of[path].listed([])
    kept = (volumes.claims, volumes.volumes, volumes.csi_nodes, volumes.limits, volumes.attachments)
    assert [len(one) for one in (*kept, volumes._attached, volumes._nodes_of)] == [0] * 7


def test_a_volume_keeps_no_more_than_what_decides() -> None:
    assert read_volume(a_volume("v", annotations={"x": "y"}, hostPath={"path": "/"})) == read_volume(a_volume("w"))


def needs_user_namespaces() -> Json:
    return {"hostNetwork": True, "hostUsers": False}


def test_nodes_without_a_feature_that_the_pod_needs_are_left_out() -> None:
    node = a_node("n1", "64")
    node["status"]["declaredFeatures"] = ["Other", "UserNamespacesHostNetworkSupport"]
    scene = Scene(a_node("n0", "64"), node)
    assert scene.out(**needs_user_namespaces()) == {FEATURES: {"n0"}}
    woken: list[str] = []
    scene.cache.listener.room_made = woken.append
    node["status"]["declaredFeatures"] = ["Other"]
    NodeFollower(scene.cache).changed(node)
    assert scene.out(**needs_user_namespaces()) == {FEATURES: {"n0", "n1"}}
    assert woken == ["node changed"]
    NodeFollower(scene.cache).changed(node)
    assert woken == ["node changed"]


def a_class(name: str, resource: str | None) -> Json:
    return {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}


@pytest.mark.parametrize("resource", ["example.com/nic", "nvidia.com/gpu"])
def test_a_resource_of_a_device_class_is_the_extenders(resource: str) -> None:
    scene = Scene()
    pod = read_pod(a_pod("new", requests={"cpu": "1", resource: "1"}))
    assert undecided(pod, scene.cache) == ""
    scene.cache.device_classes.put(a_class("nic", None))
    assert undecided(pod, scene.cache) == ""
    scene.cache.device_classes.put(a_class("nic", resource))
    said = f"asks for {resource} of the device class 'nic' (DRA), which this scheduler does not allocate: let"
    assert undecided(pod, scene.cache).startswith(said)
    assert undecided(read_pod(a_pod("other")), scene.cache) == ""
    # A node that has it by a device plugin is a candidate all the same.
    NodeFollower(scene.cache).changed(a_node("n3", "2", offered={resource: "1"}))
    assert scene.cycle.attempt(pod) == Scheduled("n3", 1 if resource == "nvidia.com/gpu" else 0)
    second = scene.cycle.attempt(read_pod(a_pod("second", requests={"cpu": "1", resource: "1"})))
    assert isinstance(second, Unschedulable)
    assert said in second.message
    scene.cache.device_classes.drop("nic")
    third = scene.cycle.attempt(read_pod(a_pod("third", requests={"cpu": "1", resource: "1"})))
    assert isinstance(third, Unschedulable)
    assert said not in third.message
