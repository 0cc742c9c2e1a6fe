"""Answers about nodes as arrays: the same as asking node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kube.neighbours import Neighbourhood
from pilotage.kube.node_facts import ANSWERS_KEPT, NodeFacts
from pilotage.kube.pod_rules import Selector
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration

KEYS, VALUES = ("zone", "disk", "metadata.name"), ("a", "b", "3", "n1")
labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
taints = st.lists(
    st.builds(
        Taint, st.sampled_from("xy"), st.sampled_from(["", "1"]), st.sampled_from(["NoSchedule", "PreferNoSchedule"])
    ),
    max_size=2,
)
requirements = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2).map(tuple),
)
terms = st.lists(st.lists(requirements, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple)
tolerations = st.lists(
    st.builds(Toleration, st.sampled_from(["", "x", "y"]), st.sampled_from(["Equal", "Exists"])), max_size=2
).map(tuple)


def facts_of(given_nodes: list[tuple[dict[str, str], list[Taint]]]) -> tuple[NodeFacts, list[Node]]:
    nodes = [
        Node(f"n{i}", 1, 1, labels=tuple(sorted(own.items())), taints=tuple(there))
        for i, (own, there) in enumerate(given_nodes)
    ]
    neighbours = Neighbourhood()
    neighbours.take_nodes(nodes)
    facts = NodeFacts(neighbours)
    facts.take_nodes(nodes)
    return facts, nodes


@given(st.lists(st.tuples(labels, taints), min_size=1, max_size=5), terms, tolerations)
def test_selectors_and_taints(
    found: list[tuple[dict[str, str], list[Taint]]],
    alternatives: tuple[tuple[Requirement, ...], ...],
    tolerated: tuple[Toleration, ...],
) -> None:
    facts, nodes = facts_of(found)
    chosen, borne = Constraints(terms=alternatives), Constraints(tolerations=tolerated)
    assert facts.selected(chosen).tolist() == [chosen.allows(n.name, dict(n.labels), ()) for n in nodes]
    assert facts.tolerated(tolerated).tolist() == [borne.allows(n.name, {}, n.taints) for n in nodes]
    soft = [[t for t in n.taints if t.effect == "PreferNoSchedule"] for n in nodes]
    disliked = [sum(not any(one.tolerates(t) for one in tolerated) for t in own) for own in soft]
    assert facts.disliked(tolerated).tolist() == disliked
    assert facts.soft_taints == any(soft)


@given(st.lists(st.tuples(labels, taints), min_size=1, max_size=5), st.lists(requirements, min_size=1, max_size=3))
def test_wishes(found: list[tuple[dict[str, str], list[Taint]]], wanted: list[Requirement]) -> None:
    facts, nodes = facts_of(found)
    wishes = tuple((weight, Selector((one,))) for weight, one in enumerate(wanted, 1))
    expected = [sum(w for w, s in wishes if s.matches({**dict(n.labels), "metadata.name": n.name})) for n in nodes]
    assert facts.liked(wishes).tolist() == expected


def test_a_changed_node_is_asked_again_and_answers_are_bounded() -> None:
    facts, _ = facts_of([({"zone": "a"}, [])])
    in_a = Constraints(terms=((Requirement("zone", "In", ("a",)),),))
    first = facts.selected(in_a)
    assert facts.selected(in_a) is first
    moved = [Node("n0", 1, 1, labels=(("zone", "b"),))]
    facts.neighbours.take_nodes(moved)
    facts.take_nodes(moved)
    assert np.array_equal(facts.selected(in_a), [False])
    for number in range(ANSWERS_KEPT + 10):
        facts.selected(Constraints(terms=((Requirement("zone", "In", (str(number),)),),)))
    assert len(facts._kept) == ANSWERS_KEPT
