"""Selectors, taints and tolerations mean what they mean to kube-scheduler."""

from __future__ import annotations

import pytest

from pilotage.model.constraints import ANYWHERE, Constraints, Operator, Requirement, Taint, Toleration

LABELS = {"zone": "a", "cores": "16", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("gone", "In", ("a",), False),
        ("gone", "In", ("",), False),  # absent is not empty
        ("empty", "In", ("",), True),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a", "b"), False),
        ("gone", "NotIn", ("a",), True),  # absent is not in anything
        ("zone", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("gone", "Exists", (), False),
        ("gone", "DoesNotExist", (), True),
        ("empty", "DoesNotExist", (), False),
        ("cores", "Gt", ("15",), True),
        ("cores", "Gt", ("16",), False),
        ("cores", "Lt", ("17",), True),
        ("cores", "Lt", ("16",), False),
        ("cores", "Gt", ("9",), True),  # as numbers, not as text
        ("gone", "Gt", ("0",), False),
        ("gone", "Lt", ("0",), False),
        ("zone", "Gt", ("0",), False),  # a label that is no number
        ("cores", "Lt", ("many",), False),
    ],
)
def test_a_requirement_matches_as_in_kubernetes(
    key: str, operator: Operator, values: tuple[str, ...], matches: bool
) -> None:
    assert Requirement(key, operator, values).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("j", "Equal", "v"), False),
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v", "NoExecute"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("j", "Exists"), False),
        (Toleration("", "Exists"), True),  # every taint
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("", "Equal", "v"), False),  # without a key only Exists has a meaning
    ],
)
def test_a_toleration_covers_a_taint_as_in_kubernetes(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) is tolerated


def test_every_taint_that_forbids_must_be_tolerated() -> None:
    taints = (Taint("a"), Taint("b", effect="NoExecute"))
    one, both = Toleration("a", "Exists"), (Toleration("a", "Exists"), Toleration("b", "Exists"))
    assert not ANYWHERE.allows("n", {}, taints)
    assert not Constraints(tolerations=(one,)).allows("n", {}, taints)
    assert Constraints(tolerations=both).allows("n", {}, taints)


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert ANYWHERE.allows("n", {}, (Taint("a", effect="PreferNoSchedule"),))


def test_requirements_of_a_term_all_hold_and_terms_are_alternatives() -> None:
    in_a, many = Requirement("zone", "In", ("a",)), Requirement("cores", "Gt", ("20",))
    assert not Constraints(terms=((in_a, many),)).allows("n", LABELS, ())
    assert Constraints(terms=((many,), (in_a,))).allows("n", LABELS, ())
    assert not Constraints(terms=((many,),)).allows("n", LABELS, ())


def test_the_name_of_a_node_is_a_field_to_select_by() -> None:
    rules = Constraints(terms=((Requirement("metadata.name", "NotIn", ("n1",)),),))
    assert rules.allows("n2", {}, ())
    assert not rules.allows("n1", {}, ())


def test_a_fixed_node_does_not_lift_its_taints() -> None:
    fixed = Constraints(node_name="n")
    assert fixed.allows("n", {}, ())
    assert not fixed.allows("m", {}, ())
    assert not fixed.allows("n", {}, (Taint("a"),))
