"""Many runs on several processes: the same results in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.model.errors import InputError
from pilotage.sim import pool
from pilotage.sim.pool import RunSpec, TraceSource, execute_all
from pilotage.sim.protocols import Timing
from pilotage.workloads import openb
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods


@pytest.fixture
def source(tmp_path: Path) -> TraceSource:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.02))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(100, times=Times(nodes_scale=0.02)))
    return TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv")


def test_two_processes_give_the_same_results_in_the_same_order(
    source: TraceSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_SECONDS_WORTH_A_PROCESS", 1e-6)
    specs = [RunSpec(source, policy, seed, "openb") for policy in ("fgd", "random") for seed in (9, 3)]
    specs += [RunSpec(source, "fgd", seed, "timed", timing=Timing(load=1.1, mtbf_hours=5.0)) for seed in (1, 2)]
    heard: list[int] = []
    alone, together = execute_all(specs, 1), execute_all(specs, 2, heard.append)
    assert [result.figures() for result, _ in alone] == [result.figures() for result, _ in together]
    assert [(r.policy, r.seed, r.protocol) for r, _ in together] == [
        (f"{spec.policy}@1", spec.seed, spec.protocol) for spec in specs
    ]
    assert heard == list(range(1, len(specs) + 1))
    assert all(seconds > 0 for _, seconds in together)


def test_little_work_is_done_in_this_process(source: TraceSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pool(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(pool, "ProcessPoolExecutor", no_pool)
    assert len(execute_all([RunSpec(source, "fgd", seed, "openb") for seed in range(4)], 8)) == 4


def test_a_bad_source_is_an_error_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        execute_all([RunSpec(TraceSource(tmp_path / "gone.csv", tmp_path / "gone.csv"), "fgd", 1, "openb")], 1)
