"""Many runs on several processes: the same results, whatever the number."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.model.errors import InputError, PilotageError
from pilotage.sim import engines
from pilotage.sim.engines import DEATHS, LocalEngine, tasks_of
from pilotage.sim.protocols import Timing
from pilotage.sim.run_store import encode
from pilotage.sim.specs import RunSpec, TraceSource
from pilotage.workloads import openb
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods


@pytest.fixture
def source(tmp_path: Path) -> TraceSource:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.02))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(100, times=Times(nodes_scale=0.02)))
    return TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv")


def test_two_processes_give_the_same_results(source: TraceSource) -> None:
    specs = [RunSpec(source, policy, seed, "openb", leftover=True) for seed in (9, 3) for policy in ("fgd", "random")]
    timing = Timing(load=1.1, mtbf_hours=5.0)
    specs += [RunSpec(source, "fgd", seed, "timed", 1.1, timing, leftover=seed == 1) for seed in (1, 2)]
    tasks = tasks_of(specs)
    found = {
        jobs: {spec: (result, seconds) for task in LocalEngine(jobs).finished(tasks) for spec, result, seconds in task}
        for jobs in (1, 2)
    }
    assert set(found[1]) == set(found[2]) == set(specs)
    for spec in specs:
        assert encode(found[1][spec][0]) == encode(found[2][spec][0])
        assert found[2][spec][1] > 0


def test_looking_at_the_nodes_does_not_change_a_run(source: TraceSource) -> None:
    for protocol in ("openb", "timed"):
        results = [
            RunSpec(source, "best-fit", 5, protocol, 1.1, Timing(load=1.1), leftover=leftover).execute()[0]
            for leftover in (False, True)
        ]
        assert results[0].figures() == results[1].figures()
        assert results[1].leftover is not None
        assert (results[1].leftover.gpu_left_ND >= 0).any()


def test_little_work_is_done_in_this_process(source: TraceSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pool(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(engines, "ProcessPoolExecutor", no_pool)
    tasks = tasks_of([RunSpec(source, "fgd", seed, "openb") for seed in range(4)])
    assert sum(map(len, LocalEngine(None).finished(tasks))) == 4
    with pytest.raises(AssertionError, match="a process was started"):
        list(LocalEngine(2).finished(tasks))  # a number that is asked for is a number that is used


def test_runs_of_one_arrival_order_are_a_task_unless_they_are_long(
    source: TraceSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [RunSpec(source, policy, seed, "openb") for seed in (1, 2) for policy in ("fgd", "random", "best-fit")]
    assert [len(task) for task in tasks_of(specs)] == [3, 3]
    monkeypatch.setattr(engines, "MOST_SECONDS_OF_A_TASK", 0.0)
    assert [len(task) for task in tasks_of(specs)] == [1] * 6
    assert [spec for task in tasks_of(specs) for spec in task] == specs


def test_an_error_of_a_run_reaches_the_caller(source: TraceSource) -> None:
    tasks = tasks_of([RunSpec(source, "fgd", seed, "timed", 1.0, Timing(load=-1.0)) for seed in (1, 2)])
    for jobs in (1, 2):
        with pytest.raises(InputError, match="load -1"):
            list(LocalEngine(jobs).finished(tasks))


MORTAL = """
import os, signal
from contextlib import suppress
from pathlib import Path
from pilotage.policies.api import FeatureSchema
class Mortal:
    name = "mortal@1"
    features = FeatureSchema()
    scope = "node"
    normalise = "none"
    def prepare(self, mix):
        for death in Path(__file__).parent.glob("death-*"):
            with suppress(FileNotFoundError):  # another process was quicker
                death.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return self
    def score(self, batch, out_BN, device_BN):
        out_BN[:] = 0
"""


@pytest.mark.parametrize("deaths", [1, 4 * DEATHS])
def test_what_a_killed_process_had_not_finished_is_run_again(source: TraceSource, tmp_path: Path, deaths: int) -> None:
    (tmp_path / "mortal.py").write_text(MORTAL)
    for number in range(deaths):
        (tmp_path / f"death-{number}").touch()
    specs = [RunSpec(source, policy, s, "openb") for s in (1, 2) for policy in ("fgd", f"{tmp_path}/mortal.py:Mortal")]
    finished = LocalEngine(2).finished(tasks_of(specs))
    if deaths > DEATHS:
        with pytest.raises(PilotageError, match="processes were killed 3 times"):
            list(finished)
        return
    assert sorted(spec.seed for task in finished for spec, _, _ in task) == [1, 1, 2, 2]


def test_a_trace_that_changes_on_the_way_is_noticed(source: TraceSource) -> None:
    spec = RunSpec(source, "fgd", 1, "openb", digest=source.load().digest)
    spec.execute()
    assert source.pods is not None
    openb.write_pods(source.pods, openb_like_pods(70))
    with pytest.raises(InputError, match="has changed since the comparison began"):
        spec.execute()
