"""The operator's answer: GPUs saved, money, and what may be said about them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.report.answer import answer, headline, overall
from pilotage.report.metrics import duration, number, signed
from pilotage.report.savings import Saving, Verdict, best_of, money, savings_of
from pilotage.report.section import Section, sections_of
from pilotage.sim.compare import Outcome, Price, Row
from pilotage.workloads.trace import Trace
from reference.strategies import checked

NODES = tuple(Node(f"n{i}", 8000, 2**34, gpu_count=8, gpu_model="A") for i in range(25))  # 200 GPUs, 200 cores
PODS = Workload.of([Pod("p", PodShape(cpu_milli=1000, gpu_milli=500, gpu_count=1))])
amounts = st.floats(-1e6, 1e6)


def row(policy: str, difference: float, half: float | None, metric: str = "gpu_allocation_percent") -> Row:
    low, high = (None, None) if half is None else (difference - half, difference + half)
    return Row("t", policy, metric, 90 + difference, None, None, "base@1", difference, low, high, None, 1.3)


def section(*rows: Row, nodes: tuple[Node, ...] = NODES) -> Section:
    given_rows = (row("base@1", 0.0, 0.0, rows[0].metric if rows else "gpu_allocation_percent"), *rows)
    policies = tuple(dict.fromkeys(r.policy for r in given_rows))
    by_key = {(r.policy, r.metric): r for r in given_rows}
    return Section(Trace.of("t", nodes, PODS), 1.3, "openb", policies, by_key, (), ())


def words(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


def test_gpus_saved_are_the_difference_of_the_allocation_times_the_gpus() -> None:
    (saving,) = savings_of(section(row("mine@1", 1.5, 0.5)))
    assert (saving.amount, saving.low, saving.high, saving.unit) == (3.0, 2.0, 4.0, "GPUs")
    assert money(saving, Price(2.0, "EUR"), 730) == Saving("mine@1", "base@1", "EUR", 4380.0, 2920.0, 5840.0)


@pytest.mark.parametrize(
    ("half", "difference", "verdict"),
    [
        (0.5, 1.0, Verdict.MORE),
        (0.5, -1.0, Verdict.FEWER),
        (2.0, 1.0, Verdict.UNCLEAR),
        (1.0, 1.0, Verdict.UNCLEAR),
        (0.0, 0.0, Verdict.SAME),
        (0.01, 0.01, Verdict.SAME),  # 0.02 of 200 GPUs
        (None, 1.0, Verdict.ONE_SEED),
    ],
)
def test_the_interval_decides_what_is_said(half: float | None, difference: float, verdict: Verdict) -> None:
    (saving,) = savings_of(section(row("mine@1", difference, half)))
    assert saving.verdict is verdict


@checked(100)
@given(amounts, amounts, amounts, st.booleans())
def test_a_reversed_saving_says_the_opposite_and_twice_the_same(a: float, b: float, c: float, one_seed: bool) -> None:
    low, mean, high = sorted((a, b, c))
    saving = Saving("x", "y", "GPUs", mean, None if one_seed else low, None if one_seed else high)
    opposite = {Verdict.MORE: Verdict.FEWER, Verdict.FEWER: Verdict.MORE}
    assert saving.reversed().verdict is opposite.get(saving.verdict, saving.verdict)
    assert saving.reversed().reversed() == saving


def test_the_best_policy_is_named_with_its_gpus() -> None:
    found = section(row("worse@1", 0.5, 0.1), row("mine@1", 1.5, 0.5))
    assert words(headline(found)) == "mine@1 would have kept 3.0 more GPUs busy than base@1"


def test_where_the_baseline_is_best_it_is_measured_against_the_next_best() -> None:
    found = section(row("a@1", -3.0, 0.1), row("b@1", -20.0, 0.1))
    best = best_of(found)
    assert best is not None
    assert (best.policy, best.baseline, best.amount) == ("base@1", "a@1", 6.0)
    assert words(headline(found)) == "base@1 would have kept 6.0 more GPUs busy than the next best, a@1"


def test_an_interval_with_zero_tells_no_difference_and_no_money_to_count_on() -> None:
    found = section(row("mine@1", 1.0, 2.0))
    assert words(headline(found)) == "No difference between mine@1 and base@1 can be told from these seeds"
    said = words(answer([found], ["t"], Price(2.0, "EUR")))
    assert "mean difference is +2.0 GPUs, but its 95 % interval \N{MINUS SIGN}2.0 to +6.0 GPUs includes zero" in said
    assert "count on nothing" in said


def test_money_comes_with_its_formula_and_interval() -> None:
    said = words(answer([section(row("mine@1", 10.0, 1.0))], ["t"], Price(2.0, "EUR")))
    assert "about 29,200 EUR a month, 350,000 EUR a year (95 % interval 315,000 to 385,000 EUR a year)" in said
    assert "GPUs saved &times; 2 EUR per GPU and hour &times; 730 h a month, or 8,760 h a year" in said
    without = answer([section(row("mine@1", 10.0, 1.0))], ["t"], None)
    assert "Money" not in without


def test_one_seed_and_one_policy_are_said_to_be_so() -> None:
    one_seed = section(row("mine@1", 1.0, None))
    assert "One run gives no interval" in answer([one_seed], ["t"], None)
    assert words(headline(section())) == "base@1 keeps 180 of 200 GPUs busy"


def test_the_same_on_every_seed_is_no_doubt() -> None:
    found = section(row("mine@1", 0.0, 0.0))
    assert words(headline(found)) == "mine@1 and base@1 keep the same number of GPUs busy"
    assert "less than 0.1 GPUs either way" in answer([found], ["t"], None)


def test_clusters_without_gpus_are_counted_in_cores_and_failed_pods() -> None:
    nodes = tuple(replace(node, gpu_count=0, gpu_model="") for node in NODES)
    rows = [row(p, 2.0, 0.5, "cpu_allocation_percent") for p in ("mine@1",)]
    failed = [replace(row(p, 0.0, 0.0, "failed_pods"), mean=mean) for p, mean in (("base@1", 30.0), ("mine@1", 12.0))]
    found = section(*rows, *failed, nodes=nodes)
    assert words(headline(found)) == "mine@1 would have kept 4.0 more CPU cores busy than base@1"
    said = words(answer([found], ["t"], Price(2.0, "EUR")))
    assert "Pods failed: 12 with mine@1, 30 with base@1" in said
    assert "EUR a month" not in said.partition("How this is counted")[0]


def test_several_traces_are_summed_up_in_one_sentence() -> None:
    gain, loss, unclear = (section(row("mine@1", d, 0.5)) for d in (1.0, -1.0, 0.1))
    assert words(overall([gain, gain, unclear])) == "mine@1 would have kept more GPUs busy than base@1 on 2 of 3 traces"
    assert words(overall([loss, loss])) == "base@1, the baseline, keeps the most GPUs busy on all 2 traces"
    assert words(overall([loss, unclear])).startswith("No policy can be told to keep more GPUs busy than base@1")


def test_timed_runs_say_how_long_pods_waited(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["timed"]
    said = words(answer(sections_of(outcome), ["t"], None))
    for policy in ("fgd@1", "random@1"):
        waits = [run.gpu_weighted_wait for run in outcome.runs if run.policy == policy]
        assert f"{duration(float(np.mean([w for w in waits if w is not None])))} with {policy}" in said


def test_numbers_are_written_for_people() -> None:
    minus = "\N{MINUS SIGN}"
    assert [number(x, 1) for x in (1234.56, -0.04, -2.0)] == ["1,234.6", "0.0", f"{minus}2.0"]
    assert [signed(x, 0) for x in (3.0, 0.2, -0.2, -3.0)] == ["+3", "0", "0", f"{minus}3"]
    assert [duration(s) for s in (90, 150, 9000, 200_000)] == ["90 s", "2.5 min", "2.5 h", "2.3 days"]
