"""Who won: by interval, seed by seed, and what a gain must not be bought with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.sim.compare import Comparison, Outcome, summarise
from pilotage.sim.results import RunResult, rounded
from pilotage.sim.specs import TraceSource
from pilotage.sim.verdicts import Case, cases_of, metrics_of, tallies_of
from pilotage.workloads.trace import Trace, load_trace

TRACE = replace(load_trace(name="varied-0"), name="t")
COMPARISON = Comparison((TraceSource(name="varied-0"),), ("mine", "fgd"), (1, 2, 3))
FIGURES: dict[str, float] = {
    **dict.fromkeys(("failed_pods", "failed_cpu_pods", "failed_share_pods", "failed_whole_gpu_pods"), 0),
    "failed_multi_gpu_pods": 0,
    "decisions": 1,
    "fragmentation_percent": 0.0,
    "fragmentation_idle_percent": 0.0,
    "cpu_allocation_percent": 0.0,
    "memory_allocation_percent": 0.0,
    "nodes_used": 0.0,
    "cpu_variance": 0.0,
    "gpu_variance": 0.0,
    "lost_before_l0_percent": 0.0,
}


def run(policy: str, seed: int, allocation: float, **figures: float) -> RunResult:
    known = {"trace": "t", "policy": policy, "seed": seed, "load": 1.3, "protocol": "openb"}
    return RunResult(**(FIGURES | known | {"gpu_allocation_percent": allocation} | figures))  # type: ignore[arg-type]


def outcome(runs: list[RunResult], traces: tuple[Trace, ...] = (TRACE,)) -> Outcome:
    summary = tuple(summarise(runs, "fgd@1", {}, "fgd@1"))
    return Outcome(COMPARISON, traces, tuple(runs), (0.0,) * len(runs), {}, summary)


def cases(runs: list[RunResult], *metrics: str) -> list[Case]:
    return cases_of("as given", outcome(runs), ["mine@1"], ["fgd@1"], metrics)


def case(mine: list[float], fgd: list[float], **figures: float) -> Case:
    runs = [run("mine@1", seed, value, **figures) for seed, value in enumerate(mine)]
    (found,) = cases([*runs, *(run("fgd@1", seed, value) for seed, value in enumerate(fgd))])
    return found


def test_a_win_is_an_interval_above_zero() -> None:
    found = case([91.0, 92.1, 93.0], [90.0, 91.0, 92.0])
    assert found.verdict == "won"
    assert found.gain == pytest.approx(31 / 30, abs=1e-6)
    assert (found.seeds_won, found.seeds_lost, found.seeds_tied) == (3, 0, 0)
    assert (found.worst_seed, found.worst_gain) == (0, 1.0)
    assert case([90.0, 91.0, 92.0], [91.0, 92.1, 93.0]).verdict == "lost"


def test_more_wins_than_losses_may_be_luck() -> None:
    found = case([91.0, 92.0, 85.0], [90.0, 91.0, 92.0])
    assert found.verdict == "tied"
    assert (found.seeds_won, found.seeds_lost, found.seeds_tied) == (2, 1, 0)
    assert (found.worst_seed, found.worst_gain) == (2, -7.0)


def test_equal_is_tied() -> None:
    found = case([90.0, 91.0], [90.0, 91.0])
    assert (found.verdict, found.seeds_tied) == ("tied", 2)


@pytest.mark.parametrize(
    ("figures", "objection"),
    [
        ({"lost_before_l0_percent": 0.31}, "loses more before L0"),
        ({"failed_cpu_pods": 1.0}, "fails more CPU-only pods"),
        ({"failed_multi_gpu_pods": 2.0}, "fails more multi-GPU pods"),
    ],
)
def test_a_gain_that_was_bought_does_not_count(figures: dict[str, float], objection: str) -> None:
    found = case([91.0, 92.1, 93.0], [90.0, 91.0, 92.0], **figures)
    assert (found.verdict, found.objections) == ("lost", (objection,))


def test_a_little_more_may_be_lost_or_failed() -> None:
    mine = [run("mine@1", seed, 91.0 + seed, failed_cpu_pods=102, lost_before_l0_percent=0.3) for seed in range(3)]
    fgd = [run("fgd@1", seed, 90.0 + seed, failed_cpu_pods=100) for seed in range(3)]
    assert cases([*mine, *fgd])[0].objections == ()
    more = [replace(one, failed_cpu_pods=103) for one in mine]
    assert cases([*more, *fgd])[0].objections == ("fails more CPU-only pods",)


def test_lower_is_better_for_most_figures() -> None:
    runs = [run("mine@1", seed, 90.0, cpu_variance=0.001 + 0.0001 * seed) for seed in range(3)]
    runs += [run("fgd@1", seed, 90.0, cpu_variance=0.003) for seed in range(3)]
    (found,) = cases(runs, "cpu_variance")
    assert found.verdict == "won"
    assert found.gain == pytest.approx(0.0019)
    assert found.gain_low is not None
    assert found.gain_high is not None
    assert found.gain_low < found.gain < found.gain_high


values = st.lists(st.integers(0, 50).map(float), min_size=2, max_size=6)


@given(values, st.data())
def test_what_one_wins_the_other_loses(mine: list[float], data: st.DataObject) -> None:
    fgd = data.draw(st.lists(st.integers(0, 50).map(float), min_size=len(mine), max_size=len(mine)))
    one, other = case(mine, fgd), case(fgd, mine)
    assert {"won": "lost", "lost": "won", "tied": "tied"}[one.verdict] == other.verdict
    assert (one.seeds_won, one.seeds_lost, one.seeds_tied) == (other.seeds_lost, other.seeds_won, other.seeds_tied)
    assert one.seeds_won + one.seeds_lost + one.seeds_tied == len(mine)
    assert one.gain == pytest.approx(-other.gain)


def test_a_tally_counts_losses_and_names_the_worst() -> None:
    runs = []
    for trace, gain in (("t", 1.0), ("u", -2.0)):
        pairs = [(run("fgd@1", s, 90.0 + s), run("mine@1", s, 90.0 + s + gain + 0.01 * s)) for s in range(3)]
        runs += [replace(one, trace=trace) for pair in pairs for one in pair]
    other = Trace.of("u", TRACE.nodes, TRACE.workload)
    found = cases_of("as given", outcome(runs, (TRACE, other)), ["mine@1"], ["fgd@1"])
    (tally,) = tallies_of(found)
    assert (tally.traces_won, tally.traces_lost, tally.traces_tied) == (1, 1, 0)
    assert (tally.seeds_won, tally.seeds_lost) == (3, 3)
    assert (tally.worst_trace, tally.worst_seed, tally.worst_gain) == ("u", 0, -2.0)
    assert tally.mean_gain == pytest.approx(-0.49)
    assert tally.mean_room_closed_percent is None


def test_what_a_trace_is_judged_by() -> None:
    assert metrics_of(TRACE, "openb") == ("gpu_allocation_percent",)
    assert metrics_of(TRACE, "timed")[1] == "gpu_weighted_wait"
    assert metrics_of(load_trace(name="balance-3"), "openb")[0] == "cpu_variance"


def test_small_variances_keep_their_digits() -> None:
    assert rounded("cpu_variance", 0.0000123456789) == 0.0000123457
    assert rounded("cpu_variance", 0.0123456789) == 0.012346
    assert rounded("cpu_variance", 0.0000123456, size=0.01) == 0.000012
    assert rounded("mean_wait", 0.0000123456) == 0.000012
