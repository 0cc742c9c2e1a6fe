"""What to compare, from a file and from options."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.commands import POLICY
from pilotage.model.errors import InputError
from pilotage.sim.compare import Price
from pilotage.sim.consolidation import Consolidation
from pilotage.sim.scenario import FIELDS, MAX_BYTES, Scenario, parse_loads, parse_price, read_scenario
from pilotage.sim.specs import TraceSource

HEAD = "apiVersion: pilotage/v1\nkind: Comparison\n"
TRACE = HEAD + "traces: [openb-like]\n"
WHOLE = (
    HEAD
    + """
traces:
  - openb-like
  - {nodes: nodes.csv, pods: lists/pods.csv}
policies: [fgd, 2*fgd+best-fit]
seeds: 42-44
loads: [0.9, 1.1]
protocol: timed
baseline: 2*fgd+best-fit
timed: {arrivals: 1500, warmUp: 0.3, mtbfHours: 24, mttrHours: 0.5}
consolidation: {method: fragMultiPod, budget: 0.05, everyHours: 2}
price: {perGpuHour: 2.5, unit: EUR}
"""
)


def read(tmp_path: Path, text: str) -> Scenario:
    (tmp_path / "scenario.yaml").write_text(text)
    return read_scenario(tmp_path / "scenario.yaml")


def test_a_file_says_everything_that_options_can(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found == Scenario(
        traces=(
            TraceSource(name="openb-like"),
            TraceSource(tmp_path / "nodes.csv", tmp_path / "lists" / "pods.csv"),
        ),
        policies=("fgd", "2*fgd+best-fit"),
        seeds=(42, 43, 44),
        loads=(0.9, 1.1),
        protocol="timed",
        baseline="2*fgd+best-fit",
        arrivals=1500,
        warm_up=0.3,
        mtbf=24.0,
        mttr=0.5,
        consolidate="fragMultiPod",
        budget=0.05,
        every=2.0,
        price=Price(2.5, "EUR"),
    )
    assert all(field in WHOLE for field in FIELDS)


def test_traces_are_enough(tmp_path: Path) -> None:
    comparison = read(tmp_path, HEAD + "traces: [openb-like]\n").comparison()
    assert comparison.policies == ("fgd", "best-fit", "gpu-packing", "random")
    assert (comparison.seeds, comparison.loads, comparison.protocol) == ((42, 43, 44, 45, 46), (1.3,), "openb")
    assert (comparison.consolidation, comparison.price) == (None, None)


def test_options_win_over_the_file(tmp_path: Path) -> None:
    said = Scenario(seeds=(7,), protocol="openb", price=Price(1.0))
    found = read(tmp_path, WHOLE).under(said)
    assert (found.seeds, found.protocol, found.price) == ((7,), "openb", Price(1.0))
    assert found.policies == ("fgd", "2*fgd+best-fit")


def test_seeds_may_be_a_list(tmp_path: Path) -> None:
    assert read(tmp_path, HEAD + "seeds: [3, 1]\n").seeds == (3, 1)
    assert read(tmp_path, HEAD + "seeds: 5\n").seeds == (5,)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "holds 0 documents; expected one"),
        (HEAD + "---\n" + HEAD, None, "holds 2 documents; expected one"),
        ("- 1\n", 1, "is a list; expected a mapping"),
        ("apiVersion: v1\nkind: Comparison\n", 1, "expected pilotage/v1"),
        ("apiVersion: pilotage/v1\nkind: Pod\n", 2, "expected Comparison"),
        (HEAD + "polices: [fgd]\n", 3, "unknown field 'polices'; did you mean 'policies'"),
        (HEAD + "timed: {warmup: 1}\n", 3, "unknown field 'warmup'; did you mean 'warmUp'?"),
        (HEAD + "traces:\n  - {file: x}\n", 4, "unknown field 'file'"),
        (HEAD + "traces:\n  - {}\n", 4, "names neither a shipped trace nor files"),
        (HEAD + "traces: openb-like\n", 3, "is text 'openb-like'; expected a list"),
        (HEAD + "policies: fgd\n", 3, "expected a list"),
        (HEAD + "policies: [fdg]\n", 3, "did you mean 'fgd'"),
        (HEAD + "policies: [fgd, fgd@1]\n", 3, "'fgd@1' is given twice"),
        (HEAD + "seeds: 46-42\n", 3, "runs backwards"),
        (HEAD + "seeds: [1, -1]\n", 3, "a whole number from 0"),
        (HEAD + "seeds: [1, x]\n", 3, "a whole number from 0"),
        (HEAD + "loads: [1.0, high]\n", 3, "a number from 0 to 100"),
        (HEAD + "loads: [.nan]\n", 3, "a number from 0 to 100"),
        (HEAD + "protocol: fast\n", 3, "expected openb or timed"),
        (HEAD + "timed: {arrivals: 0}\n", 3, "a whole number from 1"),
        (HEAD + "price: {perGpuHour: free}\n", 3, "a number from 0"),
        (HEAD + "price: 3\n", 3, "expected a mapping"),
        (HEAD + "consolidation: {budget: 0.1}\n", 3, "is missing"),
        (HEAD + "consolidation: {method: fragMultiPod, budget: 2}\n", 3, "a number from 0 to 1"),
        (HEAD + "traces: &a [*a]\n", 3, "refers to itself"),
        (HEAD + "traces: !!python/object/apply:os.system [ls]\n", 3, "tag"),
        (HEAD + "traces: [\n", None, "not YAML"),
        (TRACE + "consolidation: {method: frag}\n", 4, "did you mean 'fragMultiPod'"),
        (TRACE + "baseline: nope\n", 4, "unknown policy 'nope'"),
        (TRACE + "baseline: round-robin\n", 4, "does not take part"),
        (TRACE + "loads: [1.3, 1.3]\n", 4, "a load is given twice"),
        (TRACE + "timed: {arrivals: 5}\n", 4, "has no effect on runs of the OpenB protocol"),
        (TRACE + "protocol: timed\ntimed:\n  arrivals: 5\n", 6, "has no effect on the trace's own times"),
        (HEAD + "traces:\n  - openb-lik\n", 3, "did you mean 'openb-like'"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text).comparison()
    assert said in str(caught.value)
    if line is not None:
        assert (caught.value.file, caught.value.row) == (str(tmp_path / "scenario.yaml"), line)


def test_a_file_of_many_megabytes_is_not_a_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"larger than {MAX_BYTES} bytes"):
        read(tmp_path, HEAD + "#" * MAX_BYTES)


def test_an_option_that_wins_is_blamed_itself(tmp_path: Path) -> None:
    scenario = read(tmp_path, TRACE + "loads: [1.3]\n").under(Scenario(loads=(1.0, 1.0)))
    with pytest.raises(InputError) as caught:
        scenario.comparison()
    assert (caught.value.file, caught.value.field) == (None, "--load")


def test_files_of_policies_are_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    found = read(tmp_path, TRACE + "policies: [fgd, 2*mine.py:Mine+fgd]\n")
    assert found.policies == ("fgd", f"2*{tmp_path}/mine.py:Mine+fgd")


def test_one_seed_is_enough_where_nothing_is_left_to_chance(tmp_path: Path) -> None:
    assert read(tmp_path, TRACE + "protocol: timed\n").comparison().seeds == (42,)
    assert len(read(tmp_path, TRACE + "protocol: timed\nloads: [0.9]\n").comparison().seeds) == 5
    assert len(read(tmp_path, TRACE + "protocol: timed\ntimed: {mtbfHours: 5}\n").comparison().seeds) == 5


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(InputError, match="holds too much"):
        read(tmp_path, HEAD + "\n".join(lines))


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        (Scenario(), "no trace given"),
        (Scenario(budget=0.1), "--budget: has no effect without --consolidate"),
        (Scenario(every=1.0), "--every: has no effect without --consolidate"),
        (Scenario(consolidate="fragMultiPod", every=1.0), "--every: the OpenB protocol knows no time"),
        (Scenario(consolidate="frag"), "--consolidate: unknown method 'frag'; did you mean"),
        (Scenario(loads=(1.0, 1.0)), "--load: a load is given twice"),
        (Scenario(mtbf=1.0), "--mtbf: has no effect on runs of the OpenB protocol"),
        (Scenario(protocol="timed", arrivals=5), "--arrivals: has no effect on the trace's own times"),
        (Scenario(seeds=tuple(range(300_000))), "1200000 runs; expected at most 1000000"),
        (Scenario(seeds=tuple(range(150_000)), consolidate="cosSim"), "1200000 runs"),
    ],
)
def test_what_makes_no_sense_together_is_refused(scenario: Scenario, said: str) -> None:
    traces = None if scenario == Scenario() else (TraceSource(name="openb-like"),)
    with pytest.raises(InputError) as caught:
        scenario.under(Scenario(traces=traces)).comparison()
    assert said in str(caught.value)


def test_consolidation_has_sensible_defaults() -> None:
    traces = (TraceSource(name="openb-like"),)
    openb = Scenario(traces=traces, consolidate="cosSim").comparison()
    assert openb.consolidation == Consolidation("cosSim", 0.02, None)
    timed = Scenario(traces=traces, consolidate="cosSim", protocol="timed").comparison()
    assert timed.consolidation == Consolidation("cosSim", 0.02, None)  # ten rounds


@pytest.mark.parametrize(
    ("text", "price"),
    [("2.5", Price(2.5)), ("3 EUR", Price(3.0, "EUR")), (" 0.75USD ", Price(0.75, "USD")), ("2 €", Price(2.0, "€"))],
)
def test_prices_are_read(text: str, price: Price) -> None:
    assert parse_price(text) == price


@pytest.mark.parametrize("text", ["", "EUR", "-1", "1.2.3", "1 2 3", "nan", "2.5 " + "x" * 13])
def test_other_prices_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--price"):
        parse_price(text)


def test_loads_are_read() -> None:
    assert parse_loads("1.3") == (1.3,)
    assert parse_loads("0.9, 1.1") == (0.9, 1.1)
    with pytest.raises(InputError, match="--load"):
        parse_loads("0.9;1.1")
