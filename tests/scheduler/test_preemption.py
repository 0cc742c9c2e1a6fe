"""Who has to go for a pod of higher priority: planned on a cluster in memory, without a word to anybody."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import a_node, a_pod
from pilotage.kube.budgets import Budgets
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Json
from pilotage.kube.podgroups import PodGroups
from pilotage.kube.podview import PodView, read_pod
from pilotage.kube.selectors import read_label_selector
from pilotage.model.outcome import Scheduled, Unschedulable
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.gangs import Gangs
from pilotage.scheduler.preemption import Plan, Preemption

GROUP = "scheduling.x-k8s.io/pod-group"


def running(name: str, node: str, cpu: str = "2", priority: int = 0, **more: Any) -> Json:
    return a_pod(name, node=node, requests={"cpu": cpu}, priority=priority, phase="Running", **more)


def waiting(name: str = "new", cpu: str = "2", priority: int = 10, **more: Any) -> PodView:
    return read_pod(a_pod(name, requests={"cpu": cpu}, priority=priority, **more))


def budget(name: str, allowed: int, **labels: str) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


class World:
    """Nodes of four CPUs and pods on them."""

    def __init__(self, nodes: int, *pods: Json, budgets: list[Json] | None = None, **gangs: int) -> None:
        self.cache, groups = ClusterCache(), PodGroups()
        NodeFollower(self.cache).listed([a_node(f"n{i}", "4") for i in range(nodes)])
        self.cache.refresh()
        PodFollower(self.cache).listed(list(pods))
        known = Budgets()
        known.listed(budgets or [])
        self.gangs = Gangs(self.cache, groups)
        for name, count in gangs.items():
            groups.set("scheduling.x-k8s.io", "default", name, count)
        for pod in self.cache.pods.values():
            self.gangs.add(pod)
        self.preemption = Preemption(self.cache, known, self.gangs)

    def plan(self, *pods: PodView, wanted: int | None = None) -> Plan | None:
        for pod in pods:
            self.cache.take(pod)
            self.gangs.add(pod)
        before = self.figures()
        found = self.preemption.plan(pods, len(pods) if wanted is None else wanted)
        assert self.figures() == before  # as if nothing had been tried
        return found

    def figures(self) -> tuple[Any, ...]:
        arrays, around = self.cache.state.arrays, self.cache.neighbours
        placed = {key: (place.node, place.devices) for key, place in self.cache.state.placements()}
        on_node = {node: frozenset(uids) for node, uids in around.on_node.items()}
        return arrays.free_NR.tolist(), arrays.device_left_ND.tolist(), placed, on_node, dict(around.priorities)


def names(plan: Plan | None) -> list[str]:
    assert plan is not None
    return sorted(one.name for one in plan.victims)


def test_as_few_go_as_possible_and_the_least_important() -> None:
    world = World(1, running("a", "n0", "1", 5), running("b", "n0", "2", 1), running("c", "n0", "1", 0))
    plan = world.plan(waiting(cpu="2"))
    assert names(plan) == ["b"]  # a is put back first, then c fits beside it; b does not
    assert plan is not None
    assert plan.places == {"uid-new": ("n0", 0)}


def test_nobody_of_the_same_priority_goes() -> None:
    assert World(1, running("a", "n0", "4", 10)).plan(waiting(priority=10)) is None


def test_the_node_whose_victims_matter_least_is_taken() -> None:
    world = World(3, running("a", "n0", "4", 5), running("b", "n1", "4", 1), running("c", "n2", "4", 3))
    assert names(world.plan(waiting())) == ["b"]
    tied = World(2, running("a", "n0"), running("b", "n0"), running("c", "n1", "4"))
    assert names(tied.plan(waiting(cpu="4"))) == ["c"]  # one rather than two


def test_nobody_goes_from_nodes_that_are_not_used() -> None:
    world = World(2, running("theirs", "n0", "4"), running("ours", "n1", "4", 5))
    world.cache.pool = read_label_selector("kubernetes.io/hostname=n1", "--node-selector")
    assert names(world.plan(waiting())) == ["ours"]
    assert world.plan(waiting(priority=5)) is None


def test_who_has_run_longest_stays() -> None:
    world = World(1, running("old", "n0"), running("young", "n0", created="2026-02-01T00:00:00Z"))
    assert names(world.plan(waiting())) == ["young"]


def test_a_budget_is_never_broken() -> None:
    pods = (running("a", "n0", "4", labels={"app": "db"}), running("b", "n1", "4", 5))
    assert names(World(2, *pods).plan(waiting())) == ["a"]
    assert names(World(2, *pods, budgets=[budget("db", 0, app="db")]).plan(waiting())) == ["b"]
    assert World(1, pods[0], budgets=[budget("db", 0, app="db")]).plan(waiting()) is None
    assert names(World(1, pods[0], budgets=[budget("db", 1, app="db")]).plan(waiting())) == ["a"]


def test_two_victims_of_one_budget_need_two_disruptions() -> None:
    pods = [running(name, "n0", labels={"app": "db"}) for name in "ab"]
    assert World(1, *pods, budgets=[budget("db", 1, app="db")]).plan(waiting(cpu="4")) is None
    assert names(World(1, *pods, budgets=[budget("db", 2, app="db")]).plan(waiting(cpu="4"))) == ["a", "b"]


def test_a_gang_goes_whole_or_not_at_all() -> None:
    gang = [running(f"g{i}", f"n{i}", "4", labels={GROUP: "job"}) for i in range(2)]
    plan = World(2, *gang, job=2).plan(waiting())
    assert names(plan) == ["g0", "g1"]
    assert plan is not None
    assert plan.gangs == ("job",)
    important = [gang[0], running("g1", "n1", "4", 99, labels={GROUP: "job"})]
    assert World(2, *important, job=2).plan(waiting()) is None  # a half of it may not go
    spare = [running(f"g{i}", f"n{i}", "4", labels={GROUP: "job"}) for i in range(3)]
    assert len(names(World(3, *spare, job=2).plan(waiting()))) == 1  # it has one more than it needs


def test_a_single_pod_is_told_to_go_rather_than_a_gang() -> None:
    gang = [running(f"g{i}", f"n{i}", "4", labels={GROUP: "job"}) for i in range(2)]
    assert names(World(3, *gang, running("single", "n2", "4", 5), job=2).plan(waiting())) == ["single"]


def test_room_is_made_for_a_whole_gang_or_for_nobody() -> None:
    pods = [running(f"p{i}", f"n{i}", "4") for i in range(3)]
    members = [waiting(f"m{i}", "3", labels={GROUP: "job"}) for i in range(3)]
    assert names(World(3, *pods, job=3).plan(*members)) == ["p0", "p1", "p2"]
    assert names(World(4, *pods, job=3).plan(*members)) == ["p0", "p1"]  # one fits on the free node
    held = [*pods[:2], running("p2", "n2", "4", 99)]
    assert World(3, *held, job=3).plan(*members) is None
    assert names(World(3, *held, job=2).plan(*members, wanted=2)) == ["p0", "p1"]


def test_pods_that_never_preempt_and_pods_that_are_leaving() -> None:
    world = World(1, running("a", "n0", "4", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not world.preemption.possible(waiting(preemptionPolicy="Never"))
    assert world.preemption.possible(waiting())
    pod = waiting()
    plan = world.plan(pod)
    assert names(plan) == []  # it is leaving already: nobody has to be told
    assert not world.preemption.under_way(pod)
    world.cache.claims.set(pod, "n0")
    assert world.preemption.under_way(pod)


def test_room_that_was_promised_is_kept_from_others_but_not_from_higher_priorities() -> None:
    world = World(1)
    cycle = Cycle(world.cache, {"pilotage": find_policy("first-fit")})
    claimant = waiting("claimant", "3")
    world.cache.take(claimant)
    world.cache.claims.set(claimant, "n0")
    assert isinstance(cycle.attempt(waiting("equal", "2")), Unschedulable)
    assert isinstance(cycle.attempt(waiting("small", "1")), Scheduled)
    higher = waiting("higher", "2", 99)
    assert isinstance(cycle.attempt(higher), Scheduled)
    world.cache.forget(higher.uid)
    assert isinstance(cycle.attempt(claimant), Scheduled)
    assert world.cache.claims.known == {}
    assert world.cache.overcommitted == 0


def a_half_promised_gang() -> tuple[World, list[PodView]]:
    """Room for two was promised; one node is free by now, the other is not."""
    world = World(2, running("stays", "n1", "4", 99), job=2)
    members = [waiting(f"m{i}", "3", labels={GROUP: "job"}) for i in range(2)]
    for i, pod in enumerate(members):
        world.cache.take(pod)
        world.gangs.add(pod)
        world.cache.claims.set(pod, f"n{i}")
    return world, members


def test_a_gang_that_does_not_fit_whole_yet_keeps_its_promises() -> None:
    world, members = a_half_promised_gang()
    cycle, before = Cycle(world.cache, {"pilotage": find_policy("first-fit")}), world.figures()
    outcomes = cycle.attempt_gang(members, 2)
    assert all(isinstance(outcome, Unschedulable) for outcome in outcomes.values())
    assert [world.cache.claims.node_of(pod.uid) for pod in members] == ["n0", "n1"]
    assert world.figures() == before


def test_a_plan_leaves_promises_as_they_are() -> None:
    world, members = a_half_promised_gang()
    assert world.plan(*members) is None
    assert [world.cache.claims.node_of(pod.uid) for pod in members] == ["n0", "n1"]


def test_advice_takes_no_promise_away() -> None:
    world, (pod, _) = a_half_promised_gang()
    cycle, before = Cycle(world.cache, {"pilotage": find_policy("first-fit")}), world.figures()
    advice = cycle.advise(pod, "n0")
    assert isinstance(advice.outcome, Scheduled)
    assert advice.rank == 1  # its own promise does not stand in its way
    assert world.figures() == before


def test_a_claim_is_followed_from_the_api_server_and_goes_with_its_pod() -> None:
    world = World(2)
    found = a_pod("claimant", requests={"cpu": "3"}, priority=10)
    found["status"]["nominatedNodeName"] = "n1"
    pods = PodFollower(world.cache)
    pods.changed(found)
    assert world.cache.state.arrays.free_NR[:, 0].tolist() == [4000, 1000]
    NodeFollower(world.cache).changed(a_node("n2", "4"))
    world.cache.refresh()
    assert world.cache.state.arrays.free_NR[:, 0].tolist() == [4000, 1000, 4000]
    pods.deleted(found)
    assert world.cache.state.arrays.free_NR[:, 0].tolist() == [4000, 4000, 4000]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 3)), max_size=8),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_after_the_victims_have_gone_the_pod_fits(pods: list[tuple[int, int, int]], cpu: int, priority: int) -> None:
    world = World(3, *(running(f"p{i}", f"n{n}", str(c), p) for i, (n, c, p) in enumerate(pods)))
    pod = waiting(cpu=str(cpu), priority=priority)
    plan = world.plan(pod)
    free = world.cache.state.arrays.free_NR[:, 0]
    lower = np.zeros(3)
    for n, c, p in pods:
        lower[n] += 1000 * c * (p < priority)
    possible = ((free + lower >= 1000 * cpu) & (lower > 0)).any() and not (free >= 1000 * cpu).any()
    assert (plan is not None) == bool(possible)
    if plan is not None:
        (place,) = plan.places.values()
        assert all(one.node == place[0] and one.shape.priority < priority for one in plan.victims)
        for one in plan.victims:
            world.cache.drop(one.uid)
        outcome = Cycle(world.cache, {"pilotage": find_policy("first-fit")}).attempt(pod)
        assert isinstance(outcome, Scheduled)
