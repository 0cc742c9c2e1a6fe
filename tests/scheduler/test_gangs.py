"""Gangs: who is there, whose time is over, who is released; and where a policy sees them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import a_node, a_pod
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Json
from pilotage.kube.podgroups import GroupFollower, PodGroups
from pilotage.kube.podview import PodView
from pilotage.model.clock import VirtualClock
from pilotage.model.outcome import Scheduled
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.gangs import Gangs

LABEL = "scheduling.x-k8s.io/pod-group"
RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
OWNED = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]}


def member(name: str, gang: str = "job", bound_at: str = "2026-01-01T00:00:05Z", **more: Any) -> Json:
    owned = more.pop("owned", True)
    found = a_pod(name, labels={LABEL: gang}, **more)
    found["metadata"] |= OWNED if owned else {}
    if "node" in more:
        entry = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound_at}
        found["status"]["conditions"] = [entry]
    return found


class World:
    """Two racks of two nodes each."""

    def __init__(self, *pods: Json, **counts: int) -> None:
        self.clock, self.cache, groups = VirtualClock(), ClusterCache(), PodGroups()
        labels = [{RACK: f"r{i // 2}", ZONE: "z"} for i in range(4)]
        NodeFollower(self.cache).listed([a_node(f"n{i}", "4", labels=labels[i]) for i in range(4)])
        self.cache.refresh()
        self.groups = GroupFollower(groups, "scheduling.x-k8s.io", ("spec", "minMember"))
        for name, count in counts.items():
            self.describe(name, minMember=count)
        self.gangs = Gangs(self.cache, groups, self.clock, wait_seconds=60)
        self.follower = PodFollower(self.cache)
        for found in pods:
            self.set(found)

    def describe(self, name: str, **spec: int) -> None:
        self.groups.changed({"metadata": {"namespace": "default", "name": name}, "spec": spec})

    def set(self, found: Json) -> None:
        self.follower.changed(found)
        self.gangs.add(self.pod(found["metadata"]["name"]))

    def pod(self, name: str) -> PodView:
        return self.cache.pods[f"uid-{name}"]


def test_time_runs_out_with_a_count_in_the_message() -> None:
    world = World(member("a"), member("b"), job=3)
    assert world.gangs.incomplete(world.pod("a")) == "2 of the 3 pods that gang 'job' needs are there"
    assert world.gangs.newly_overdue() == []
    world.clock.wait(60)
    assert sorted(world.gangs.newly_overdue()) == ["uid-a", "uid-b"]
    assert world.gangs.newly_overdue() == []  # told once
    assert world.gangs.incomplete(world.pod("a")).startswith("timed out after 60 s: 2 of the 3 pods")
    world.set(member("c"))
    assert world.gangs.incomplete(world.pod("a")) == ""


def test_a_group_may_state_its_own_time() -> None:
    world = World(member("a"))
    world.describe("job", minMember=2, scheduleTimeoutSeconds=5)
    assert not world.gangs.overdue(world.pod("a"))
    world.clock.wait(5)
    assert world.gangs.overdue(world.pod("a"))
    world.gangs.whole(world.pod("a"))
    assert not world.gangs.overdue(world.pod("a"))


def half(**more: Any) -> World:
    world = World(member("a", node="n0", **more), member("b"), member("c"), job=3)
    assert world.gangs.to_release(world.pod("b")) == []  # there is time yet
    world.clock.wait(60)
    return world


def test_a_half_that_was_never_whole_is_released() -> None:
    world = half()
    assert [one.name for one in world.gangs.to_release(world.pod("b"))] == ["a"]


def test_pods_that_nobody_makes_again_are_not_released() -> None:
    world = half(owned=False)
    assert world.gangs.to_release(world.pod("b")) == []


def test_a_running_gang_that_lost_a_pod_is_left_alone() -> None:
    world = World(member("a", node="n0"), member("b", created="2026-01-01T00:10:00Z"), job=2)
    world.gangs.overdue(world.pod("b"))
    world.clock.wait(60)
    assert world.gangs.to_release(world.pod("b")) == []


def test_of_two_halves_one_is_released_at_a_time() -> None:
    other = [member("x", "other", node="n1"), member("y", "other")]
    world = half()
    world.describe("other", minMember=2)
    for found in other:
        world.set(found)
    world.gangs.overdue(world.pod("y"))
    world.clock.wait(60)
    assert world.gangs.to_release(world.pod("y"))
    world.set(member("a", node="n0", deletionTimestamp="2026-01-01T00:02:00Z"))  # the first half is leaving
    assert world.gangs.to_release(world.pod("y")) == []
    world.follower.deleted(member("a", node="n0"))
    assert world.gangs.to_release(world.pod("y"))


def test_pods_of_a_gang_go_where_the_others_are() -> None:
    world = World(member("a", node="n3"), member("b"), job=2)
    cycle = Cycle(world.cache, {"pilotage": find_policy("gang-locality")}, around=world.gangs.around)
    outcome = cycle.attempt(world.pod("b"))
    assert isinstance(outcome, Scheduled)
    assert outcome.node == "n3"
    apart = Cycle(world.cache, {"pilotage": find_policy("gang-spread")}, around=world.gangs.around)
    world.set(member("c"))
    outcome = apart.attempt(world.pod("c"))
    assert isinstance(outcome, Scheduled)
    assert outcome.node in ("n0", "n1")  # the other rack


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=4))
def test_the_columns_count_the_gang_and_the_room(members: list[int], others: list[int]) -> None:
    from pilotage.kernels.features import GANG_IN_RACK, GANG_IN_ZONE, GANG_ON_NODE, GANG_RACK_ROOM
    from pilotage.policies.encode import encode_shapes
    from pilotage.scheduler.gang_columns import fill

    pods = [member(f"g{i}", node=f"n{n}", requests={"cpu": "500m"}) for i, n in enumerate(members)]
    pods += [a_pod(f"p{i}", node=f"n{n}", requests={"cpu": "1"}) for i, n in enumerate(others)]
    world = World(*pods, member("new", requests={"cpu": "1"}), job=8)
    pod, cache = world.pod("new"), world.cache
    shapes = encode_shapes(cache.state, [pod.shape])
    fill(cache.state.arrays, shapes, world.gangs.around(pod), cache.node_NF)
    free = [4000 - 500 * members.count(n) - 1000 * others.count(n) for n in range(4)]
    room = [max(0, milli) // 1000 for milli in free]
    for n in range(4):
        row, rack = cache.node_NF[n], [m for m in members if m // 2 == n // 2]
        assert row[GANG_ON_NODE] == members.count(n)
        assert row[GANG_IN_RACK] == len(rack)
        assert row[GANG_IN_ZONE] == len(members)
        assert row[GANG_RACK_ROOM] == room[2 * (n // 2)] + room[2 * (n // 2) + 1]
