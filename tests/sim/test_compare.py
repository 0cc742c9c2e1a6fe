"""Comparisons: who is compared with whom, and when a share of the room is defined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pilotage.model.errors import InputError
from pilotage.sim.bound import PackingBound
from pilotage.sim.compare import Comparison, compare, forced_load, summarise
from pilotage.sim.results import RunResult
from pilotage.sim.specs import TraceSource
from pilotage.workloads import openb
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods

SOURCE = TraceSource(name="openb-like")


def run(policy: str, seed: int, allocation: float, lost: float = 0.0, failed: int = 0) -> RunResult:
    return RunResult(
        **{
            "trace": "t",
            "policy": policy,
            "seed": seed,
            "load": 1.3,
            "protocol": "openb",
            "gpu_allocation_percent": allocation,
            "lost_before_l0_percent": lost,
            "failed_pods": failed,
        },  # type: ignore[arg-type]
        fragmentation_percent=0.0,
        fragmentation_idle_percent=0.0,
        cpu_allocation_percent=0.0,
        memory_allocation_percent=0.0,
        nodes_used=0.0,
        cpu_variance=0.0,
        gpu_variance=0.0,
        failed_cpu_pods=0,
        failed_share_pods=0,
        failed_whole_gpu_pods=0,
        failed_multi_gpu_pods=0,
        decisions=1,
    )


COMPARISON = Comparison((SOURCE,), ("mine", "fgd"), (1, 2))
FGD_RUNS = [run("fgd@1", 1, 90.0), run("fgd@1", 2, 92.0)]


def room(mine: list[RunResult], bounds: tuple[float | None, float | None] = (95.0, 97.0)) -> float | None:
    limits = {("t", 1.3, seed): PackingBound(87.0, bound) for seed, bound in zip((1, 2), bounds, strict=True)}
    rows = summarise([*mine, *FGD_RUNS], "fgd@1", limits, "fgd@1")
    found = [row for row in rows if (row.policy, row.metric) == ("mine@1", "gpu_allocation_percent")]
    assert len(found) == 1
    return found[0].room_closed_percent


def test_the_room_closed_is_a_ratio_of_means() -> None:
    # FGD 91, bound 96, mine 93.5: half of the room. Seed by seed it would be (1/5 + 4/5) / 2 only by chance.
    assert room([run("mine@1", 1, 91.0), run("mine@1", 2, 96.0)]) == 50.0


def test_a_policy_worse_than_fgd_closes_less_than_nothing() -> None:
    assert room([run("mine@1", 1, 85.0), run("mine@1", 2, 87.0)]) == -100.0


def test_no_share_of_the_room_where_more_was_lost_before_l0() -> None:
    assert room([run("mine@1", seed, 94.0, lost=0.31) for seed in (1, 2)]) is None
    assert room([run("mine@1", seed, 94.0, lost=0.29) for seed in (1, 2)]) is not None
    assert room([run("mine@1", 1, 94.0, lost=0.58), run("mine@1", 2, 94.0)]) is not None  # 0.29 on average


def test_no_share_of_the_room_without_a_bound() -> None:
    mine = [run("mine@1", seed, 94.0) for seed in (1, 2)]
    assert room(mine, (95.0, None)) is None
    assert room(mine, (91.0, 91.0)) is None  # no room at all


def test_l0_is_96_percent_of_what_fgd_reaches() -> None:
    assert forced_load(FGD_RUNS) == pytest.approx(0.96 * 0.91)


def test_differences_are_paired_by_seed() -> None:
    mine = [run("mine@1", 1, 91.0, failed=10), run("mine@1", 2, 93.0, failed=20)]
    rows = summarise([*mine, *FGD_RUNS], "fgd@1", {}, "fgd@1")
    row = next(row for row in rows if (row.policy, row.metric) == ("mine@1", "gpu_allocation_percent"))
    assert (row.mean, row.difference) == (92.0, 1.0)
    assert (row.difference_low, row.difference_high) == (1.0, 1.0)  # +1 with each seed: no doubt about it
    assert row.low is not None
    assert row.low < 85  # though the means themselves are uncertain


def with_distances(policy: str, found: dict[int, float | None]) -> list[RunResult]:
    return [replace(run(policy, seed, 90.0 + seed), gang_distance=value) for seed, value in found.items()]


def test_a_figure_that_some_seeds_lack_is_paired_over_the_others() -> None:
    mine = with_distances("mine@1", {1: 1.0, 2: None, 3: 2.0})
    base = with_distances("fgd@1", {1: None, 2: 5.0, 3: 2.5})
    rows = {(row.policy, row.metric): row for row in summarise([*mine, *base], "fgd@1", {}, "fgd@1")}
    row = rows["mine@1", "gang_distance"]
    assert (row.mean, row.difference) == (1.5, -0.5)  # only seed 3 has both
    assert row.difference_low is None


def test_a_figure_that_the_baseline_never_has_is_left_out() -> None:
    mine, base = with_distances("mine@1", {1: 1.0, 2: 2.0}), with_distances("fgd@1", {1: None, 2: None})
    rows = summarise([*mine, *base], "fgd@1", {}, "fgd@1")
    assert "gang_distance" not in {row.metric for row in rows}
    moved = [replace(one, moved_pods=3) for one in mine]
    row = next(row for row in summarise([*moved, *base], "fgd@1", {}, "fgd@1") if row.metric == "moved_pods")
    assert row.difference == 3.0  # who moves nothing has moved zero


def test_seeds_that_change_nothing_give_no_interval() -> None:
    """A trace's own times, no failures, policies that draw nothing: one run, seen several times."""
    same = [run("mine@1", seed, 91.0) for seed in (1, 2, 3)] + [run("fgd@1", seed, 90.0) for seed in (1, 2, 3)]
    row = next(row for row in summarise(same, "fgd@1", {}, "fgd@1") if row.policy == "mine@1")
    assert (row.mean, row.difference) == (91.0, 1.0)
    assert (row.low, row.high, row.difference_low, row.difference_high) == (None, None, None, None)
    drawn = [run("mine@1", seed, 91.0) for seed in (1, 2, 3)] + [run("fgd@1", seed, 90.0 + seed) for seed in (1, 2, 3)]
    row = next(row for row in summarise(drawn, "fgd@1", {}, "fgd@1") if row.policy == "mine@1")
    assert row.low is None
    assert row.difference_low is not None  # the baseline does vary


def test_the_baseline_is_the_one_asked_for_else_fgd_else_the_first() -> None:
    assert Comparison((SOURCE,), ("random", "fgd"), (1,)).baseline_name == "fgd@1"
    assert Comparison((SOURCE,), ("random", "best-fit"), (1,)).baseline_name == "random@1"
    assert Comparison((SOURCE,), ("random", "fgd"), (1,), baseline="random").baseline_name == "random@1"
    with pytest.raises(InputError, match="--baseline: best-fit does not take part; expected one of random, fgd"):
        _ = Comparison((SOURCE,), ("random", "fgd"), (1,), baseline="best-fit").baseline_name


def test_runs_come_in_the_order_of_the_comparison(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.01))
    for name, pods in (("z", 60), ("a", 70)):
        openb.write_pods(tmp_path / f"{name}.csv", openb_like_pods(pods))
    sources = tuple(TraceSource(tmp_path / "nodes.csv", tmp_path / f"{name}.csv") for name in ("z", "a"))
    heard: list[tuple[int, int]] = []
    comparison = Comparison(sources, ("random", "best-fit"), (4, 2))
    outcome = compare(comparison, progress=lambda done, total: heard.append((done, total)))
    assert [(r.trace, r.policy, r.seed) for r in outcome.runs] == [
        (trace, policy, seed) for trace in ("z", "a") for policy in ("random@1", "best-fit@1") for seed in (4, 2)
    ]
    assert heard == [(k, 12) for k in range(0, 13, 3)]  # FGD runs too, for the bound; the runs of a seed go together
    assert set(outcome.bounds) == {(trace, 1.3, seed) for trace in ("z", "a") for seed in (4, 2)}
    assert len(outcome.seconds) == len(outcome.runs)


def test_what_was_lost_before_l0_counts_refused_gpu_up_to_it(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.02))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(150))
    source = TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv")
    outcome = compare(Comparison((source,), ("random",), (1, 2, 3)))
    for result in outcome.runs:
        assert result.lost_at is not None
        arrived, lost = result.lost_at
        limit = outcome.bounds[result.trace, result.load, result.seed].forced_load_percent / 100
        assert result.lost_before_l0_percent == pytest.approx(100 * lost[arrived <= limit].sum())
    assert any((r.lost_before_l0_percent or 0) > 0 for r in outcome.runs)
    assert np.isfinite([row.mean for row in outcome.summary]).all()


def test_loads_are_compared_apart(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.01))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(60))
    source = TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv")
    both = compare(Comparison((source,), ("fgd", "random"), (1, 2), loads=(1.2, 0.8)))
    alone = [compare(Comparison((source,), ("fgd", "random"), (1, 2), loads=(load,))) for load in (1.2, 0.8)]
    assert [r.figures() for r in both.runs] == [r.figures() for outcome in alone for r in outcome.runs]
    assert both.summary == alone[0].summary + alone[1].summary
    assert both.bounds == alone[0].bounds | alone[1].bounds


def test_the_first_seed_alone_holds_what_is_left(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.01))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(60))
    outcome = compare(Comparison((TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv"),), ("fgd",), (1, 2)))
    first, second = outcome.runs
    assert second.leftover is None
    assert first.leftover is not None
    nodes = outcome.traces[0].nodes
    left_ND = first.leftover.gpu_left_ND
    assert [(row >= 0).sum() for row in left_ND] == [node.gpu_count for node in nodes]  # in the order of the trace
    assert first.curve is not None
    end = first.curve.allocation_L[~np.isnan(first.curve.allocation_L)][-1]
    used = 100 - left_ND[left_ND >= 0].sum() / (10 * sum(node.gpu_count for node in nodes))
    assert end == pytest.approx(used, abs=1.0)  # a mean over the last percent of load, and the very end


def test_without_a_bound_no_reference_is_run() -> None:
    comparison = replace(COMPARISON, policies=("first-fit",), seeds=(1,), with_bound=False)
    outcome = compare(comparison)
    assert (len(outcome.runs), outcome.bounds) == (1, {})
    assert outcome.runs[0].lost_before_l0_percent is None
