"""Data sets of decisions: what is in them, and that it is what happened."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS
from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim import offline
from pilotage.sim.offline import CHANGES, decisions_of, write_offline
from pilotage.sim.protocols import Timing, openb_run, timed_run
from pilotage.sim.results import openb_result
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace

SCALE, LOAD, SEED = 0.02, 1.3, 7
TRACE = Trace.of("small", openb_like_nodes(SCALE), openb_like_pods(150, times=Times(nodes_scale=SCALE)))


def written(directory: Path, policy: str = "fgd") -> tuple[pl.DataFrame, dict[str, object]]:
    rows = write_offline(openb_run(TRACE, find_policy(policy), SEED, LOAD), TRACE, SEED, LOAD, directory)
    frame = pl.read_parquet(directory / "*.parquet")
    assert frame.height == rows
    return frame, json.loads((directory / "dataset.json").read_text())


@pytest.mark.parametrize("policy", ["fgd", "random", "2*fgd+best-fit"])
def test_actions_are_those_of_the_run(tmp_path: Path, policy: str) -> None:
    frame, about = written(tmp_path / "data", policy)
    run = openb_run(TRACE, find_policy(policy), SEED, LOAD)
    run.advance()
    placed_P = run.scene.progress.node_P >= 0
    assert frame["pod"].to_list() == [name for name, placed in zip(run.workload.names, placed_P, strict=True) if placed]
    assert frame["action"].to_list() == run.scene.progress.node_P[placed_P].tolist()
    assert about["failed_pods"] == int((~placed_P).sum()) > 0
    assert about["nodes"] == [node.name for node in run.state.nodes]
    assert frame["done"].to_list() == [False] * (frame.height - 1) + [True]


def test_changes_add_up_to_the_figures_of_the_run(tmp_path: Path) -> None:
    frame, _ = written(tmp_path / "data")
    run = openb_run(TRACE, find_policy("fgd"), SEED, LOAD)
    run.advance()
    result = openb_result(run, "small", "fgd@1", SEED, LOAD)
    total = {name: frame[f"change_{name}"].sum() for name in CHANGES}
    assert total["cpu_variance"] == pytest.approx(result.cpu_variance)
    assert total["memory_variance"] == pytest.approx(result.memory_variance)
    assert total["used_nodes"] * len(TRACE.nodes) == pytest.approx(result.nodes_used)
    assert frame["change_gpu_allocation"].min() == 0  # CPU-only pods change nothing


def test_rows_hold_what_learned_policies_see(tmp_path: Path) -> None:
    frame, about = written(tmp_path / "data")
    N = len(TRACE.nodes)
    columns = [*(f"pod_{name}" for name in POD_INPUTS), *(f"node_{name}" for name in NODE_INPUTS)]
    assert frame.columns == ["pod", *columns, "mask", "action", *(f"change_{name}" for name in CHANGES), "done"]
    assert frame.schema["node_cpu_used"] == pl.List(pl.Float32)
    assert frame.schema["mask"] == pl.List(pl.Boolean)
    assert frame["mask"].list.len().unique().to_list() == [N]
    first = frame.row(0, named=True)
    assert not any(first["node_cpu_used"])
    chosen = [mask[action] for mask, action in frame.select("mask", "action").iter_rows()]
    assert all(chosen)
    # What is used after the placement is what the chosen node shows as used in the next decision.
    second = frame.row(1, named=True)
    assert second["node_cpu_used"][first["action"]] == pytest.approx(first["node_cpu_used_after"][first["action"]])
    assert about["node_inputs"] == list(NODE_INPUTS)


def test_parts_hold_the_same_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = written(tmp_path / "whole")
    monkeypatch.setattr(offline, "PART_BYTES", 4 * len(NODE_INPUTS) * len(TRACE.nodes) * 40)
    parts, _ = written(tmp_path / "parts")
    assert len(list((tmp_path / "parts").glob("part-*.parquet"))) == -(-whole.height // 40)
    assert parts.equals(whole)


def test_gang_columns_are_filled_for_policies_that_do_not_look_at_them() -> None:
    from pilotage.workloads.generate import shipped

    trace = Trace.of("gangs", *shipped("openb-like-gangs", pods=300))
    run = openb_run(trace, find_policy("best-fit"), SEED, 0.0)
    near = [float(decision.node_NI[:, NODE_INPUTS.index("gang_in_rack")].max()) for decision in decisions_of(run)]
    assert 0 < np.mean([value > 0 for value in near]) < 1


def test_nothing_is_overwritten_or_left_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "data")
    with pytest.raises(InputError, match="there already"):
        written(tmp_path / "data")

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(offline, "replace_file", broken)
    with pytest.raises(InputError, match="No space left"):
        written(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_runs_over_time_are_refused() -> None:
    with pytest.raises(InputError, match="depart between"):
        next(decisions_of(timed_run(TRACE, find_policy("fgd"), SEED, Timing(load=1.0))))
