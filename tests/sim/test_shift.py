"""Conditions unlike those that were asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.sim.compare import Comparison, compare
from pilotage.sim.protocols import Timing
from pilotage.sim.shift import LOAD_FACTORS, Condition, shifted
from pilotage.sim.specs import TraceSource

GPU = Comparison((TraceSource(name="openb-like"),), ("fgd", "random"), (1, 2))
EVEN = replace(GPU, sources=(TraceSource(name="balance-10"),), policies=("least-allocated", "random"), loads=(0.0,))


def by_name(base: Comparison) -> dict[str, Condition]:
    return {condition.name: condition for condition in shifted(base)[0]}


def nodes(condition: Condition) -> list[int]:
    return [len(source.load().nodes) for source in condition.comparison.sources]


def pods(condition: Condition) -> list[int]:
    return [len(source.load().workload) for source in condition.comparison.sources]


def test_gpu_traces_are_tried_in_every_way() -> None:
    found = by_name(GPU)
    assert list(found) == ["other traces", "half the nodes", "twice the nodes", "other loads", "failing nodes"]
    assert shifted(GPU)[1] == []
    # The protocol makes as many pods as the load asks for, so only nodes are halved and doubled.
    trace = GPU.sources[0].load()
    assert nodes(found["twice the nodes"]) == [2 * len(trace.nodes)]
    assert nodes(found["half the nodes"])[0] == round(len(trace.nodes) / 2)
    assert pods(found["half the nodes"]) == [len(trace.workload)]
    assert found["other loads"].comparison.loads == tuple(round(1.3 * factor, 4) for factor in LOAD_FACTORS)
    failing = found["failing nodes"].comparison
    assert (failing.protocol, failing.timing.mtbf_hours is not None) == ("timed", True)
    assert all(condition.comparison.policies == GPU.policies for condition in found.values())
    assert all(condition.comparison.seeds == GPU.seeds for condition in found.values())
    assert found["half the nodes"].slug == "half-the-nodes"


def test_an_even_load_keeps_its_load_on_other_sizes() -> None:
    found, notes = shifted(EVEN)
    known = {condition.name: condition for condition in found}
    assert (nodes(known["half the nodes"]), pods(known["half the nodes"])) == ([5], [75])
    assert (nodes(known["twice the nodes"]), pods(known["twice the nodes"])) == ([20], [300])
    assert nodes(known["other loads"]) == [10, 10]
    assert pods(known["other loads"]) == [round(150 * factor) for factor in LOAD_FACTORS]
    assert "balance-10" not in [s.name for s in known["other traces"].comparison.sources]
    assert "failing nodes" not in known  # its pods never depart, and that is said
    assert len(notes) == 1
    assert "1 of 1" in notes[0]


def test_traces_that_were_given_are_not_other_ones() -> None:
    several = replace(GPU, sources=tuple(TraceSource(name=f"varied-{n}") for n in range(5)))
    assert "other traces" not in by_name(several)


def test_runs_over_time_stay_so() -> None:
    base = replace(GPU, protocol="timed", loads=(0.9,), timing=Timing(load=0.9, arrivals=100))
    found = by_name(base)
    assert {condition.comparison.protocol for condition in found.values()} == {"timed"}
    assert found["failing nodes"].comparison.loads == (0.9,)
    assert found["failing nodes"].comparison.timing.arrivals == 100
    assert "failing nodes" not in by_name(replace(base, timing=replace(base.timing, mtbf_hours=5.0)))


def test_gangs_are_not_resized_where_that_would_tear_them() -> None:
    base = replace(GPU, sources=(TraceSource(name="openb-like-gangs"),), protocol="timed", loads=(0.0,))
    assert list(by_name(base)) == ["other traces"]


@pytest.mark.parametrize("name", ["half the nodes", "twice the nodes", "other loads"])
def test_conditions_can_be_carried_out(name: str) -> None:
    outcome = compare(by_name(EVEN)[name].comparison)
    assert len(outcome.runs) == len(outcome.traces) * 2 * 2
    assert {run.failed_pods for run in outcome.runs} == {0}
