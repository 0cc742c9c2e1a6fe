"""The number of added nodes is the smallest that works, whatever the policy does, and never below the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.report.planning import as_dict, planning_table
from pilotage.sim.planning import (
    Arrivals,
    Plan,
    PlanSummary,
    first_refused,
    lower_bound,
    plan,
    smallest_addition,
    summarise,
)
from pilotage.sim.protocols import arrival_of
from pilotage.sim.run import Placed, Run, RunSettings
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.node_template import parse
from pilotage.workloads.trace import Trace
from reference.machines import Machine
from reference.strategies import MEMORY, checked, node_lists, shapes

GIB = 2**30
MOST = 6
POLICIES = ["first-fit", "fgd", "best-fit", "random", "least-allocated", "round-robin", "2*fgd+random"]
TEMPLATE = Node("t", 8000, 8 * GIB, gpu_count=2, gpu_model="A")


def workload_of(wanted: list[PodShape]) -> Workload:
    return Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(wanted))


def arrivals_of(nodes: list[Node], wanted: list[PodShape], **others: object) -> Arrivals:
    return Arrivals(nodes, workload_of(wanted), np.arange(len(nodes)), **others)  # type: ignore[arg-type]


def works(nodes: list[Node], ranks: list[int], wanted: list[PodShape], policy: str, template: Node, count: int) -> bool:
    """One run of everything, put together by hand."""
    all_nodes = nodes + [replace(template, name=f"more{k}") for k in range(count)]
    rank_N = np.array([*ranks, *range(len(nodes), len(all_nodes))])
    run = Run(all_nodes, workload_of(wanted), find_policy(policy), RunSettings(seed=7), rank_N=rank_N)
    run.advance()
    return bool((run.scene.progress.node_P >= 0).all())


def test_a_policy_that_looks_at_racks_may_need_nodes_that_stay_empty() -> None:
    """A rack that grows with added nodes draws the gang away from the one node that another pod needs."""

    def node(name: str, rack: str, cpu: int) -> Node:
        labels = (("topology.kubernetes.io/rack", rack), ("topology.kubernetes.io/zone", "z"))
        return Node(name, cpu, GIB, labels=labels)

    nodes = [node("a", "r1", 1000), node("b", "r2", 3000), node("c", "r3", 2000)]
    gang = Gang("g", 4)
    pods = [*(Pod(f"g{i}", PodShape(1000), gang=gang) for i in range(4)), Pod("large", PodShape(2500))]
    arrivals = Arrivals(nodes, Workload.of(pods), np.arange(3))
    policy = find_policy("gang-locality")
    found = plan(arrivals, policy, nodes[0], 20)
    enough = [k for k in range(21) if first_refused(arrivals.run(policy, nodes[0], k)) is None]
    assert enough
    assert found.added == enough[0]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Node], list[int], list[PodShape], str, Node]:
    """Nearly always pods that fit on some empty node: the others have tests of their own."""
    nodes = draw(node_lists(3))
    template = Node(
        name="t",
        cpu_milli=draw(st.sampled_from([3000, 4000, 8000])),
        memory_bytes=draw(st.integers(2, 8)) * MEMORY,
        pods=draw(st.sampled_from([2, 3, 110])),
        gpu_count=draw(st.sampled_from([0, 1, 2, 4])),
        gpu_model=draw(st.sampled_from(["", "A"])),
    )
    kinds = draw(st.lists(shapes([node.name for node in nodes], most=2), min_size=1, max_size=6))
    machines = [Machine(node, 0) for node in (*nodes, template)]
    if draw(st.integers(0, 9)):
        kinds = [kind for kind in kinds if any(machine.fits(kind) for machine in machines)] or [PodShape(1000)]
    wanted = draw(st.lists(st.sampled_from(kinds), min_size=3, max_size=16))
    return nodes, draw(st.permutations(range(len(nodes)))), wanted, draw(st.sampled_from(POLICIES)), template


@checked(150)
@given(cases())
def test_the_answer_is_that_of_trying_every_number(
    case: tuple[list[Node], list[int], list[PodShape], str, Node],
) -> None:
    nodes, ranks, wanted, policy, template = case
    arrivals = Arrivals(nodes, workload_of(wanted), np.array(ranks), seed=7)
    found = plan(arrivals, find_policy(policy), template, most=MOST)
    tried = [works(nodes, ranks, wanted, policy, template, count) for count in range(MOST + 1)]
    assert found.added == (tried.index(True) if True in tried else None)
    if found.added is not None:
        assert found.lower_bound <= found.added
        assert found.tried == found.added - found.lower_bound + 1
        assert found.reason == ""
    else:
        assert found.reason
        enough = len(wanted) + 1  # nodes beyond the number of pods stay empty
        if "more than" not in found.reason and "random" not in policy:
            assert not works(nodes, ranks, wanted, policy, template, enough)


@checked(50)
@given(cases())
def test_the_bound_holds_for_every_policy(case: tuple[list[Node], list[int], list[PodShape], str, Node]) -> None:
    nodes, ranks, wanted, _, template = case
    arrivals = Arrivals(nodes, workload_of(wanted), np.array(ranks), seed=7)
    bound, reason = lower_bound(arrivals.run(find_policy("first-fit"), template, 1))
    for policy in ("fgd", "best-fit", "least-allocated"):
        for count in range(MOST if reason else min(bound, MOST)):
            assert not works(nodes, ranks, wanted, policy, template, count)


def test_more_nodes_may_be_worse() -> None:
    """Why numbers are tried one by one: all fits with one more node, not with two."""
    nodes, template = [Node("a", 4000, GIB)], Node("t", 2000, GIB)
    wanted = [PodShape(cpu) for cpu in (1000, 500, 1000, 1500, 2000)]
    tried = [works(nodes, [0], wanted, "least-allocated", template, count) for count in range(4)]
    assert tried == [False, True, False, True]
    assert plan(arrivals_of(nodes, wanted), find_policy("least-allocated"), template).added == 1


@pytest.mark.parametrize(
    ("nodes", "wanted", "bound"),
    [
        ([Node("a", 4000, GIB)], [PodShape(4000)] * 4, 2),  # CPU: 12000 more, 8000 a node
        ([Node("a", 4000, GIB)], [PodShape(1, 3 * GIB)] * 6, 3),  # memory, of which the old node is of no use
        ([Node("a", 4000, GIB, pods=1)], [PodShape(1)] * 222, 3),  # 221 pods, 110 a node
        ([Node("a", 4000, GIB, gpu_count=1)], [PodShape(1, 0, 500, 1)] * 11, 3),  # 5500 milli of GPU, 1000 are there
        ([Node("a", 4000, GIB, gpu_count=1)], [PodShape(1, 0, 600, 1)] * 5, 2),  # no two shares on a device
        ([Node("a", 99000, GIB, gpu_count=1, gpu_model="B")], [PodShape(1, 0, 1000, 1, "A")] * 3, 2),  # other models
        ([Node("a", 99000, GIB)], [PodShape(1)] * 5, 0),
    ],
)
def test_bounds_by_each_resource(nodes: list[Node], wanted: list[PodShape], bound: int) -> None:
    found = plan(arrivals_of(nodes, wanted), find_policy("first-fit"), TEMPLATE)
    assert (found.lower_bound, found.added) == (bound, bound)


def test_pods_of_old_nodes_only_take_their_share_of_them_first() -> None:
    fixed = PodShape(3000, constraints=Constraints(node_name="a"))
    bound, reason = lower_bound(
        arrivals_of([Node("a", 4000, GIB)], [PodShape(4000), fixed]).run(find_policy("fgd"), TEMPLATE, 1)
    )
    assert (bound, reason) == (1, "")


def test_a_pod_too_large_for_every_node_is_named() -> None:
    found = plan(arrivals_of([Node("a", 4000, GIB)], [PodShape(1), PodShape(9000)]), find_policy("fgd"), TEMPLATE)
    assert (found.added, found.tried) == (None, 0)
    assert found.reason.startswith("pod 'p1' (9 CPU")
    assert found.reason.endswith("fits on no empty node, neither of the cluster nor an added one")


def test_a_resource_that_added_nodes_lack_is_named() -> None:
    nodes = [Node("a", 4000, GIB, extended=(("x.io/nic", 1),))]
    wanted = [PodShape(1, extended=(("x.io/nic", 1),))] * 3
    found = plan(arrivals_of(nodes, wanted), find_policy("fgd"), TEMPLATE)
    assert found.added is None
    assert found.reason == "pods that fit on no added node ask for 2 x.io/nic more than the cluster has"


def test_pods_that_fit_on_old_nodes_only_and_come_too_late() -> None:
    """No number of nodes helps: first-fit fills the old node with what would fit on the new ones."""
    fixed = PodShape(4000, constraints=Constraints(node_name="a"))
    found = plan(arrivals_of([Node("a", 4000, GIB)], [PodShape(1000), fixed]), find_policy("first-fit"), TEMPLATE)
    assert (found.added, found.tried) == (None, 1)
    assert found.reason.startswith("pod 'p1' (4 CPU")
    assert "others take the nodes that it fits on" in found.reason


def test_more_nodes_than_may_be_tried() -> None:
    wanted = [PodShape(8000)] * 9
    found = plan(arrivals_of([Node("a", 1000, GIB)], wanted), find_policy("fgd"), TEMPLATE, most=8)
    assert (found.added, found.lower_bound, found.tried) == (None, 9, 0)
    assert found.reason == "more than 8 nodes would be needed"


def test_pods_already_there_count() -> None:
    placed = [Placed(PodShape(3000), "a")]
    found = plan(arrivals_of([Node("a", 4000, GIB)], [PodShape(2000)], placed=placed), find_policy("fgd"), TEMPLATE)
    assert (found.added, found.lower_bound) == (1, 1)


def test_added_nodes_are_no_copies_of_a_name() -> None:
    """A pod that must be on the host of the template is not at home on added ones."""
    like = Node("a", 4000, GIB, labels=(("kubernetes.io/hostname", "a"),))
    at_a = PodShape(3000, constraints=Constraints(terms=((Requirement("kubernetes.io/hostname", "In", ("a",)),),)))
    found = plan(arrivals_of([like], [at_a, at_a]), find_policy("fgd"), like)
    assert found.added is None
    assert "more than the cluster has" in found.reason


# A trace


TRACE = Trace.of("small", openb_like_nodes(0.02), openb_like_pods(150))


def test_the_pods_are_those_of_the_original_cluster() -> None:
    template = parse("like=" + TRACE.nodes[0].name, TRACE.nodes)
    found = smallest_addition(TRACE, find_policy("best-fit"), 5, 1.2, template)
    arrival = arrival_of(TRACE, 1.2, 5)
    assert found.added is not None
    assert found.added >= found.lower_bound > 0
    nodes, wanted = list(TRACE.nodes), [arrival.workload.shapes[s] for s in arrival.workload.shape_P]
    settings = RunSettings(seed=5)
    outcomes = []
    for count in (found.added - 1, found.added):
        more = nodes + [replace(template, name=f"more{k}") for k in range(count)]
        rank_N = np.array([*arrival.rank_N, *range(len(nodes), len(more))])
        run = Run(more, workload_of(wanted), find_policy("best-fit"), settings, rank_N=rank_N)
        run.advance()
        outcomes.append(bool((run.scene.progress.node_P >= 0).all()))
    assert outcomes == [False, True]
    assert smallest_addition(TRACE, find_policy("best-fit"), 5, 1.2, template) == found


# Over seeds, and for people


PLANS = [
    Plan("a@1", 1, 4, 2, 3),
    Plan("a@1", 2, 7, 3, 5),
    Plan("a@1", 3, 5, 2, 4),
    Plan("b@1", 1, 4, 2, 3),
    Plan("b@1", 2, None, 3, 9, "pod 'x' fits nowhere"),
    Plan("c@1", 1, None, 2, 0, "more than 9 nodes would be needed"),
]


def test_summary_over_seeds() -> None:
    assert summarise(PLANS) == [
        PlanSummary("a@1", 3, 4, 5.0, 7, 3, 0),
        PlanSummary("b@1", 2, 4, None, None, 3, 1, "pod 'x' fits nowhere"),
        PlanSummary("c@1", 1, None, None, None, 2, 1, "more than 9 nodes would be needed"),
    ]
    assert summarise([]) == []


def test_json_has_every_plan_and_the_summary() -> None:
    content = as_dict(PLANS)
    assert list(content) == ["plans", "summary"]
    assert content["plans"][0] == {
        "policy": "a@1",
        "seed": 1,
        "added": 4,
        "lower_bound": 2,
        "tried": 3,
        "reason": "",
    }
    assert content["summary"][1]["median"] is None


def test_the_table_for_people() -> None:
    from rich.console import Console

    console = Console(width=80, record=True, file=None)
    with console.capture() as shown:
        console.print(planning_table(PLANS, "like=[b]n[/b]"))
    lines = shown.get().splitlines()
    assert "like=[b]n[/b]" in lines[0]
    assert any(line.split() == ["a@1", "5", "4", "7", "3", "3"] for line in lines)
    assert any(line.split() == ["b@1", "-", "4", "-", "3", "2"] for line in lines)
    assert any("b@1, 1 of 2 seeds: pod 'x' fits nowhere" in line for line in lines)
    assert any("c@1, 1 of 1 seed: more than 9 nodes would be needed" in line for line in lines)
