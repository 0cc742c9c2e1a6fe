"""Job files: what is wrong is said with file, line, field and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from gang.small_job import write_job
from pilotage.gang.cluster_crew import initial_shares
from pilotage.gang.job import read_job
from pilotage.gang.next_division import plan_next
from pilotage.gang.strategies import controller_by_name
from pilotage.model.errors import InputError


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write_job(tmp_path, {"one": "true", "two": "echo {size}"})


def test_a_job_is_read(job: Path) -> None:
    found = read_job(job)
    assert found.names == ("one", "two")
    assert (found.budget.total, found.budget.least, found.budget.step) == (500, 100, 50)
    assert found.tasks[1].command_for(12.5) == ["/bin/sh", "-c", "echo 12.5"]
    outlook = found.outlook()
    assert outlook.sizes.forecast_THJ.shape == (40 + outlook.before, 5, 2)
    own_T = outlook.sizes.actual_THJ[outlook.before :, 0]
    assert (own_T.min(), own_T.max()) == (10.0, 50.0)
    problem = found.problem(outlook, 10, 20)
    assert problem.duration_THJC.shape == (20, 5, 2, 7)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("total: 500m", "total: 0", "row 4, document 1, budget.total: is 0; expected CPU above 0"),
        ("total: 500m", "total: -2", "row 4, document 1, budget.total: -2 is negative"),
        ("total: 500m", "total: 150m", "row 4, document 1, budget: 150 is less than 2 tasks x 100"),
        ("step: 50m", "step: 70m", "300 beyond the least shares is no multiple of 70"),
        ("penalty: 0.05", "penalty: -1", "row 5, document 1, penalty: is a number '-1'"),
        ("rows: 40", "rows: 4000", "one has 260 values"),
        ("rows: 40", "rows: 0", "row 7, document 1, rows"),
        ("kind: GangJob", "kind: Job", "row 2, document 1, kind"),
        ("horizon: 5", "horizons: 5", "unknown field 'horizons'; did you mean 'horizon'"),
        ("name: two", "name: three", "unknown task of the profile 'three'"),
        ("name: two", "name: one", "'one' is given twice"),
        ("series: two.csv", "series: tow.csv", "row 14, document 1, tasks[1].series: no such file"),
        ("name: small", "name: Small Job", "'Small Job' is not a name"),
        ("profile: profile.csv", "forecaster: guess\nprofile: profile.csv", "unknown forecaster 'guess'"),
        ("profile: profile.csv", "profile: none.csv", "row 6, document 1, profile: no such file"),
        ("rows: 40", "rows: 40\nnodes: {a: 0}", "row 8, document 1, nodes.a: is 0; expected CPU above 0"),
        ("rows: 40", "rows: 40\nnodes: [a]", "row 8, document 1, nodes: is a list"),
        ("name: two", "node: a\n    name: two", "node: unknown node 'a'"),
        ("name: two", "most: 50m\n    name: two", "is 50; expected at least the least share, 100"),
    ],
)
def test_bad_jobs(job: Path, old: str, new: str, said: str) -> None:
    text = job.read_text()
    assert old in text
    job.write_text(text.replace(old, new))
    with pytest.raises(InputError) as refused:
        read_job(job)
    assert said in str(refused.value)
    assert str(job.parent) in str(refused.value)


def test_nodes_have_capacities(job: Path) -> None:
    text = (
        job.read_text()
        .replace("rows: 40", "rows: 40\nnodes: {a: 250m, b: 2}")
        .replace("name: two", "node: a\n    name: two")
    )
    job.write_text(text)
    found = read_job(job)
    room = found.room()
    assert (room.units, room.node_J.tolist(), room.most_N.tolist()) == (6, [0, 1], [6, 3])
    assert initial_shares(found) == {"one": 250, "two": 250}
    outlook = found.outlook()
    problem = found.problem(outlook, 0, 20)
    for name in ("equal-split", "exppo", "static-mpc(2)", "static-exact(2)", "dynamic-mpc(3)", "pilotage", "learned"):
        assert controller_by_name(name).run(problem).unit_TJ[:, 1].max() <= 3, name
    plan = plan_next(found, outlook, 3, None, 0, window=3)
    assert max(plan.shares["two"], plan.exact_shares["two"]) <= 250
    assert (plan.window, plan.exact_gap <= 0.001) == (3, True)
    alone = plan_next(found, outlook, 3, None, 0)
    assert alone.exact_seconds <= plan.exact_seconds
    with pytest.raises(InputError, match="--window looks 9 steps ahead, forecasts are for 5"):
        plan_next(found, outlook, 3, None, 0, window=9)
    other = text_of_capacity(job, "300m")
    assert found.fingerprint() != read_job(other).fingerprint()


def text_of_capacity(job: Path, capacity: str) -> Path:
    job.write_text(job.read_text().replace("a: 250m", f"a: {capacity}"))
    return job


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("one, 20, 200, 0.11", "one, 20, 200, -1", "row 7, Duration: '-1'"),
        ("one, 20, 200, 0.11\n", "", "one has no measurement at size 20 and share 200"),
        ("one, 20, 200, 0.11", "one, 20, 200, ", "row 7, Duration: is missing"),
    ],
)
def test_bad_profiles_of_a_job(job: Path, old: str, new: str, said: str) -> None:
    profile = job.parent / "profile.csv"
    text = profile.read_text()
    assert old in text
    profile.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read_job(job).model()
    assert f"{profile}" in str(refused.value)
    assert said in str(refused.value)
