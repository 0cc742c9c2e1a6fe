"""Supersteps with made-up workers and a made-up meeting: what is lost, what pods begin with, what is predicted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from gang.small_job import write_job
from pilotage.gang.cluster_crew import initial_shares
from pilotage.gang.execution import Execution, Limits, Shares
from pilotage.gang.job import read_job
from pilotage.gang.meeting import Order, Report
from pilotage.gang.real_run import predictor
from pilotage.gang.record import FILE, Record
from pilotage.model.clock import VirtualClock

RESTART_SECONDS = 0.2


class DeadAtFirst:
    """A worker that is dead before it comes, and lives once it was started again; both sides of the meeting."""

    address = ""

    def __init__(self) -> None:
        self.restarted = False

    def start(self, task: str) -> None: ...

    def alive(self, task: str) -> bool:
        return self.restarted

    def restart(self, task: str) -> None:
        time.sleep(RESTART_SECONDS)
        self.restarted = True

    def resize(self, share: Mapping[str, int]) -> None: ...

    def order(self, task: str, order: Order) -> None: ...

    def entered(self, key: str) -> set[str]:
        return {"one"} if self.restarted else set()

    def open(self, key: str) -> None: ...

    def left(self, key: str) -> dict[str, Report]:
        return {"one": Report("one", 0, 0, 0.0, 0)}

    def wait(self, seconds: float) -> None: ...

    def forget(self, key: str) -> None: ...

    def close(self) -> None: ...


def test_time_to_gather_is_lost_where_a_worker_failed(tmp_path: Path) -> None:
    both, record = DeadAtFirst(), Record(tmp_path, {})
    execution = Execution(("one",), both, both, record, Limits())
    execution.run(lambda t, unit_J: np.zeros(1, np.int64), np.ones((2, 1)), lambda t, unit_J: 1.0, Shares(100, 50))
    record.close()
    first, second = record.done
    assert first.events == ("one: the worker died, started again",)
    assert RESTART_SECONDS <= first.lost_seconds <= first.seconds
    assert second.lost_seconds == 0.0


def test_a_run_that_is_gone_on_with_says_how_long_it_was_away(tmp_path: Path) -> None:
    for length, away in ((1, None), (3, 40.0), (3, 50.0)):
        both, file = DeadAtFirst(), tmp_path / FILE
        both.restarted = True
        written = file.stat().st_mtime if away is not None else 0.0
        record = Record(tmp_path, {}, VirtualClock(written + (away or 0.0)))
        execution = Execution(("one",), both, both, record, Limits())
        sizes = np.ones((length, 1))
        execution.run(lambda t, unit_J: np.zeros(1, np.int64), sizes, lambda t, unit_J: 1.0, Shares(100, 50))
        record.close()
    assert [step.interrupted_seconds for step in record.done] == pytest.approx([0.0, 40.0, 0.0], abs=1e-3)
    assert [step.lost_seconds for step in record.done] == [0.0] * 3
    said = "the coordinator was started again 40.0 s after superstep 0 was recorded; work since then is done again"
    assert [tuple(step.events) for step in record.done] == [(), (said,), ()]


def test_pods_begin_with_no_more_than_they_may_have(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, {"one": "true", "two": "true"}, extra="    most: 150m\n"))
    assert initial_shares(job) == {"one": 250, "two": 150}


def test_what_is_predicted_is_what_was_forecast(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path, {"one": "true", "two": "true"}))
    problem = job.problem(job.outlook(), 0, 10)
    unit_J = np.array([3, 3])
    assert predictor(problem)(4, unit_J) == problem.duration_THJC[4, 0, :, 3].max()
