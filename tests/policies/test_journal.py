"""The journal of decisions: bounded, numbered, and plain enough for JSON."""

from __future__ import annotations

import json

import pytest

from pilotage.model.outcome import Choice, Failed, Outcome, Scheduled, Unschedulable, Wait
from pilotage.model.workload import PodShape
from pilotage.policies.journal import Attempt, Journal

CHOICE = Choice("fgd@1", (("b", 90.0), ("a", 75.0)), 2, 5, (("Insufficient cpu", 3),))


def attempt(number: int = 0) -> Attempt:
    return Attempt(12.5, "host-1", "pilotage", "fgd@1", f"uid-{number}", f"shop/web-{number}", PodShape(cpu_milli=500))


def test_a_placed_pod_is_written_down_with_its_reasons() -> None:
    decision = Journal().add(attempt(), Scheduled("b", 0b101, CHOICE))
    written = json.loads(json.dumps(decision.as_dict()))
    assert written["node"] == "b"
    assert written["devices"] == [0, 2]
    assert written["score"] == 90.0
    assert written["best"] == [["b", 90.0], ["a", 75.0]]
    assert written["reasons"] == [["Insufficient cpu", 3]]
    assert written["policy"] == "fgd@1"
    assert written["why"] == "b has the highest total 90 of 2 candidates, 15 ahead of a"
    assert written["request"] == "0.5 CPU, 0 GiB"


@pytest.mark.parametrize(
    ("outcome", "result", "why"),
    [
        (Unschedulable((("Insufficient cpu", 2),), 2), "unschedulable", "0/2 nodes are available: 2 Insufficient cpu."),
        (Wait("2 of 3 pods are there"), "waiting", "2 of 3 pods are there"),
        (Failed("score fails"), "failed", "score fails"),
    ],
)
def test_other_outcomes_say_why(outcome: Outcome, result: str, why: str) -> None:
    decision = Journal().add(attempt(), outcome)
    assert (decision.result, decision.why, decision.node, decision.score) == (result, why, "", None)


def test_ties_and_single_candidates_are_said_so() -> None:
    tied = Choice("fgd@1", (("a", 90.0), ("b", 90.0)), 2, 2)
    assert tied.verdict == ("a has the highest total 90 of 2 candidates, as has b; a comes first in the order of nodes")
    assert Choice("x@1", (("a", 1.0),), 1, 7).verdict == "a is the only one of 7 nodes that the pod fits on"


def test_it_is_read_while_decisions_are_added() -> None:
    """As by the thread that answers /decisions."""
    journal = Journal(kept=2)
    for number in range(2):
        journal.add(attempt(number), Wait("x"))
    reading = iter(journal)
    assert next(reading).number == 2
    journal.add(attempt(2), Wait("x"))
    assert next(reading).number == 1


def test_the_oldest_go_first() -> None:
    journal = Journal(kept=3)
    for number in range(5):
        journal.add(attempt(number), Wait("x"))
    assert [decision.number for decision in journal] == [5, 4, 3]
    assert [decision.number for decision in journal.newest(limit=2)] == [5, 4]
    assert [decision.number for decision in journal.newest(after=4)] == [5]
    assert [decision.uid for decision in journal.of_pod("shop/web-3")] == ["uid-3"]
    assert journal.of_pod("uid-0") == []
    assert (len(journal), journal.added) == (3, 5)
