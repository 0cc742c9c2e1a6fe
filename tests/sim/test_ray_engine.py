"""Runs on Ray: what is refused before and on the way. That results are the same is shown in tests/contract."""

from __future__ import annotations

import sys

import pytest

from pilotage.model.errors import InputError, PilotageError
from pilotage.policies.registry import find_policy
from pilotage.sim.engines import tasks_of
from pilotage.sim.ray_engine import RayEngine, execute_elsewhere
from pilotage.sim.run_store import code_hash
from pilotage.sim.specs import RunSpec, TraceSource

SOURCE = TraceSource(name="openb-like")
TASK = tasks_of([RunSpec(SOURCE, "first-fit", 1, "openb")])[0]


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--engine: Ray is not installed; expected pip install 'pilotage\[ray\]'"):
        list(RayEngine().finished([TASK]))


def test_without_work_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert list(RayEngine().finished([])) == []


def test_another_version_of_the_program_is_refused() -> None:
    policies = [find_policy("first-fit")]
    assert len(execute_elsewhere(TASK, SOURCE.load(), policies, code_hash())) == 1
    with pytest.raises(PilotageError, match="another version of Pilotage"):
        execute_elsewhere(TASK, SOURCE.load(), policies, "other")
