"""Our controller: what it knows, that it keeps to the budget, and its totals on the published job."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gang.small_job import write_job
from pilotage.gang.controllers import DynamicMpc
from pilotage.gang.job import Job, Outlook, read_job
from pilotage.gang.published import published_job
from pilotage.gang.scenario_mpc import Planner, ScenarioMpc
from pilotage.gang.strategies import Comparison, mean_totals, parse_strategies, parse_sweep
from pilotage.gang.window_policy import LearnedWindows
from pilotage.model.errors import InputError
from pilotage.report.gang_tables import sweep_table

PENALTIES = (5, 15, 25, 35, 45, 55, 65, 75, 85, 95)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_job(tmp_path_factory.mktemp("job"), {"one": "true", "two": "true", "three": "true"}))


@pytest.fixture(scope="module")
def outlook(job: Job) -> Outlook:
    return job.outlook()


def test_the_whole_budget_is_given_and_the_same_seed_gives_the_same(job: Job, outlook: Outlook) -> None:
    problem = job.problem(outlook, 0, 30)
    first, again = (ScenarioMpc(window=4, seed=1).run(problem) for _ in range(2))
    assert (first.unit_TJ.sum(axis=1) == problem.units).all()
    assert (first.unit_TJ == again.unit_TJ).all()
    assert first.divided_T[0]
    changed_T = (np.diff(first.unit_TJ, axis=0) != 0).any(axis=1)
    assert (changed_T <= first.divided_T[1:]).all()


def test_decisions_do_not_depend_on_what_comes_later(job: Job, outlook: Outlook) -> None:
    sizes = outlook.sizes
    later = outlook.before + 20
    changed_THJ = sizes.actual_THJ.copy()
    for h in range(changed_THJ.shape[1]):
        changed_THJ[later - h :, h] = 10.0  # what is not known at superstep 20
    other = Outlook(replace(sizes, actual_THJ=changed_THJ), outlook.before)
    before, after = (ScenarioMpc(window=4).run(job.problem(seen, 0, 30)) for seen in (outlook, other))
    assert (before.unit_TJ[:21] == after.unit_TJ[:21]).all()


def test_without_misses_all_futures_are_the_forecast(job: Job, outlook: Outlook) -> None:
    perfect = Outlook(outlook.sizes.perfect(), outlook.before)
    problem = job.problem(perfect, 0, 30)
    many, one = ScenarioMpc(4, futures=8).run(problem), ScenarioMpc(4, futures=1).run(problem)
    assert (many.unit_TJ == one.unit_TJ).all()


def test_what_divisions_cost_in_fact_is_learned(job: Job, outlook: Outlook) -> None:
    planner = Planner(ScenarioMpc(window=4), replace(job.problem(outlook, 0, 30), penalty=3.0))
    assert planner.penalty == 3.0
    planner.paid(0.5)
    assert planner.penalty == pytest.approx((2 * 3.0 + 0.5) / 3)
    dear, cheap = (Planner(ScenarioMpc(window=4), job.problem(outlook, 0, 30)) for _ in range(2))
    for _ in range(20):
        dear.paid(1000.0)
        cheap.paid(0.0)
    equal_J = np.array([2, 2, 2])
    assert all(dear.plan(t, equal_J) is None for t in range(10))
    assert any(cheap.plan(t, equal_J) is not None for t in range(10))


def test_without_uncertainty_it_is_refused(job: Job, outlook: Outlook) -> None:
    problem = replace(job.problem(outlook, 0, 10), uncertainty=None)
    with pytest.raises(InputError, match="uncertainty: is not known"):
        ScenarioMpc().run(problem)


def test_no_strategy_beats_the_bound(job: Job, outlook: Outlook) -> None:
    comparison = Comparison(job, parse_strategies("equal-split,exppo,static-mpc(2),dynamic-mpc(3),pilotage"), (0, 1))
    bound = comparison.bound(outlook)
    runs = comparison.runs(outlook) + comparison.runs(outlook, perfect=True)
    assert len(runs) == 12
    assert all(run.bare >= bound - 1e-9 for run in runs)
    totals = mean_totals(runs)
    assert list(totals) == ["equal-split", "exppo", "static-mpc(2)", "dynamic-mpc(3)", "pilotage"]


def test_sweeps_are_what_single_comparisons_are(job: Job, outlook: Outlook) -> None:
    comparison = Comparison(job, (DynamicMpc(2), ScenarioMpc()), (0,), 0, 20)
    whole = comparison.problem(outlook)
    found = comparison.sweep("penalty", (0.0, 3.0), outlook, whole)
    assert list(found) == [0.0, 3.0]
    assert found[3.0] == mean_totals(replace(comparison, job=replace(job, penalty=3.0)).runs(outlook))
    for length in (7, 30):
        alone = replace(comparison, length=length)
        assert comparison.sweep("length", (length,), outlook, whole)[length] == mean_totals(alone.runs(outlook))
    windows = comparison.sweep("window", (2, 3), outlook, whole)
    assert [list(totals) for totals in windows.values()] == [["dynamic-mpc(W)", "pilotage(W)"]] * 2  # curves, not dots
    assert windows[2]["dynamic-mpc(W)"] == mean_totals(comparison.runs(outlook))["dynamic-mpc(2)"]
    assert list(comparison.sweep("tasks", (2,), outlook, whole)[2]) == ["dynamic-mpc(2)", "pilotage"]
    with pytest.raises(InputError, match="4 tasks; expected at most 3"):
        comparison.sweep("tasks", (4,), outlook, whole)


def test_sweeps_of_long_names_fit_a_terminal() -> None:
    names = [f"learned:out/window/seed-{k}" for k in range(5)]
    screen = Console(width=80, record=True, file=StringIO())
    screen.print(sweep_table("penalty", {value: dict.fromkeys(names, 12345.6) for value in (5.0, 15.0)}))
    shown = screen.export_text()
    assert all(name in shown for name in names)
    assert shown.count("penalty  learned") == 3  # at most two of them in a table, each with its values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dynamic-mcp(3)", "unknown strategy 'dynamic-mcp(3)'; did you mean"),
        ("static-mpc", "'static-mpc' needs a window; expected such as static-mpc(3)"),
        ("exppo(3)", "'exppo' has no window"),
        (" , ", "--strategies: ' , ' names none"),
    ],
)
def test_unknown_strategies(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_strategies(text)
    assert said in str(refused.value)


def test_windows_beyond_the_forecasts_are_refused(job: Job, outlook: Outlook) -> None:
    words = r"job.yaml, row 8, document 1, horizon: dynamic-mpc\(9\) looks 9 steps ahead, forecasts are for 5"
    with pytest.raises(InputError, match=words):
        Comparison(job, (DynamicMpc(9),)).runs(outlook)


@pytest.mark.parametrize(
    "text", ["penalty=nan", "penalty=inf", "penalty=x", "window=nan", "window=0", "length=", "window=1.5", "speed=1"]
)
def test_bad_sweeps(text: str) -> None:
    with pytest.raises(InputError, match="--sweep"):
        parse_sweep(text)
    assert parse_sweep("window=1-3,5") == ("window", (1, 2, 3, 5))


@pytest.mark.data
def test_totals_on_the_published_job(gang_data: Path) -> None:
    published = published_job(gang_data, "combined")
    seen = published.outlook()
    (late,) = Comparison(published, (ScenarioMpc(),), (0,), 600, 380).runs(seen)
    assert late.total <= 48_500
    assert Comparison(published, (), (), 0, 400).bound(seen) == pytest.approx(41064.2, abs=0.1)
    rivals = tuple(DynamicMpc(window) for window in range(1, 11))
    comparison = Comparison(published, (*rivals, ScenarioMpc(), LearnedWindows()), (0,), 0, 400)
    swept = comparison.sweep("penalty", PENALTIES, seen, comparison.problem(seen))
    assert swept[15]["pilotage"] <= 46_800
    for penalty, totals in swept.items():
        best = min(total for name, total in totals.items() if name.startswith("dynamic-mpc"))
        assert totals["pilotage"] <= best, penalty
        assert totals["learned"] <= best, penalty
