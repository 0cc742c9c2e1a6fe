"""Recorded decisions: played again, learned from, refused where they cannot have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pilotage.kernels.inputs import NODE_INPUTS
from pilotage.model.errors import InputError
from pilotage.policies.checkpoints import read_checkpoint
from pilotage.policies.registry import find_policy
from pilotage.sim.details import decisions_table
from pilotage.sim.protocols import Timing, openb_run, timed_run
from pilotage.training.demonstrations import Demonstrations, read_demonstrations
from pilotage.training.loop import train
from pilotage.training.recording import Agreement, Recording
from pilotage.training.run_directory import RunDirectory
from pilotage.training.settings import ImitationSettings
from pilotage.workloads.tables import parquet
from pilotage.workloads.trace import Trace, load_trace
from training.small import small_run, small_settings

CPU_AFTER = NODE_INPUTS.index("cpu_used_after")


def recorded(path: Path, trace: Trace, policy: str = "least-allocated", *, timed: bool = False) -> pl.DataFrame:
    run = timed_run(trace, find_policy(policy), 1, Timing(load=0.9, arrivals=120)) if timed else None
    run = run or openb_run(trace, find_policy(policy), 1, 0)
    run.advance()
    path.write_bytes(parquet(decisions_table(run)))
    return pl.read_parquet(path)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load_trace(name="balance-6")


def test_every_placement_is_a_decision_with_its_candidates(tmp_path: Path, trace: Trace) -> None:
    table = recorded(tmp_path / "d.parquet", trace)
    found = read_demonstrations(tmp_path / "d.parquet", trace.nodes, candidates=4, seed=1)
    assert len(found) == table["node"].is_not_null().sum() == 90
    assert found.observation.mask_BN.sum(dim=1).tolist() == [4] * 90
    assert found.observation.mask_BN.gather(1, found.action_B[:, None]).all()


def test_what_was_seen_is_the_cluster_before_the_decision(tmp_path: Path, trace: Trace) -> None:
    """Of equal pods: the chosen node is never fuller than another, but for one pod, which the score rounds away."""
    recorded(tmp_path / "d.parquet", trace)
    found = read_demonstrations(tmp_path / "d.parquet", trace.nodes, candidates=6, seed=1)
    after_BN = found.observation.rows_BNI[:, :, CPU_AFTER]
    chosen_B = after_BN.gather(1, found.action_B[:, None])[:, 0]
    assert (chosen_B <= after_BN.min(dim=1).values + 1 / 64 + 1e-6).all()
    assert chosen_B[0].item() == pytest.approx(1 / 64)
    assert chosen_B[-1].item() == pytest.approx(15 / 64)


def test_pods_that_left_have_left(tmp_path: Path) -> None:
    trace = load_trace(name="openb-like")
    table = recorded(tmp_path / "d.parquet", trace, "fgd", timed=True)
    found = read_demonstrations(tmp_path / "d.parquet", trace.nodes, candidates=8, seed=1)
    assert len(found) == table["node"].is_not_null().sum()
    assert found.observation.rows_BNI.shape[1] == 8


def test_a_pod_that_stayed_for_no_time_is_a_decision_too(tmp_path: Path, trace: Trace) -> None:
    path = tmp_path / "d.parquet"
    recorded(path, trace).with_columns(placed_at=pl.lit(1.0), ended_at=pl.lit(1.0)).write_parquet(path)
    found = read_demonstrations(path, trace.nodes, candidates=6, seed=1)
    assert len(found) == 90
    after_BN = found.observation.rows_BNI[:, :, CPU_AFTER]
    assert set(after_BN.flatten().tolist()) == {1 / 64}  # each left before the next one came


def test_a_problem_is_told_with_its_row_in_the_file(tmp_path: Path, trace: Trace) -> None:
    path = tmp_path / "d.parquet"
    table = recorded(path, trace)
    nodes = [None, None, "elsewhere", *table["node"][3:]]
    table.with_columns(node=pl.Series(nodes, dtype=pl.String)).write_parquet(path)
    with pytest.raises(InputError, match=r"row 3: unknown node 'elsewhere'"):
        read_demonstrations(path, trace.nodes, 8, 1)


def settings_of(path: Path, recorded_nodes: str = "balance-6", **changes: Any) -> ImitationSettings:
    settings = small_settings("imitation", decisions=str(path), recorded_nodes=recorded_nodes, **changes)
    assert isinstance(settings, ImitationSettings)
    return settings


def test_decisions_to_learn_from_and_to_validate_on_are_apart(tmp_path: Path, trace: Trace) -> None:
    recorded(tmp_path / "d.parquet", trace)
    settings = settings_of(tmp_path / "d.parquet")
    assert len(Recording(settings).action_B) == 81
    assert len(Agreement(settings).action_B) == 9


def test_a_recording_is_learned(tmp_path: Path) -> None:
    recorded(tmp_path / "d.parquet", load_trace(name="balance-40"))
    changes = {"steps": 6400, "evaluate_every": 3200, "hidden": 32, "learning_rate": 0.01, "batch": 64}
    run = small_run(
        tmp_path, "imitation", decisions=str(tmp_path / "d.parquet"), recorded_nodes="balance-40", **changes
    )
    rows = pl.read_csv(run.path / "curve.csv")
    assert rows["step"].to_list() == [0, 3200, 6400]
    assert rows["validation_log_likelihood"][-1] > rows["validation_log_likelihood"][0] + 0.3


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"node": "elsewhere"}, "elsewhere"),
        ({"cpu_milli": 10**9}, "does not fit"),
        ({"node": None}, "no pod that was placed"),
        ({"memory_bytes": None}, "row 1, memory_bytes: is empty"),
        ({"placed_at": 5.0, "ended_at": 4.0}, "row 1, ended_at: is 4, before the pod was placed"),
    ],
)
def test_recordings_that_cannot_be_are_refused(
    tmp_path: Path, trace: Trace, damage: dict[str, object], problem: str
) -> None:
    path = tmp_path / "d.parquet"
    table = recorded(path, trace)
    table.with_columns(
        **{name: pl.lit(value).cast(table.schema[name]) for name, value in damage.items()}
    ).write_parquet(path)
    with pytest.raises(InputError, match=problem):
        read_demonstrations(path, trace.nodes, 8, 1)


def test_files_that_are_no_recording_are_refused(tmp_path: Path, trace: Trace) -> None:
    def read(name: str) -> Demonstrations:
        return read_demonstrations(tmp_path / name, trace.nodes, 8, 1)

    with pytest.raises(InputError, match="no such file"):
        read("absent.parquet")
    (tmp_path / "text.parquet").write_text("pod,node")
    with pytest.raises(InputError, match="Parquet"):
        read("text.parquet")
    pl.DataFrame({"pod": ["a"], "node": ["b"]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"has no column cpu_milli, .*expected decisions\.parquet"):
        read("other.parquet")
    recorded(tmp_path / "d.parquet", trace).with_columns(devices=pl.lit(3)).write_parquet(tmp_path / "kinds.parquet")
    with pytest.raises(InputError, match=r"devices: is of type Int32; expected List\(Int64\)"):
        read("kinds.parquet")


def test_nodes_of_the_recording_are_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--recorded-nodes"):
        Recording(settings_of(tmp_path / "d.parquet", recorded_nodes=""))


def test_too_few_decisions_are_refused(tmp_path: Path, trace: Trace) -> None:
    path = tmp_path / "d.parquet"
    recorded(path, trace)
    pl.read_parquet(path).head(5).write_parquet(path)
    for use in (Recording, Agreement):  # the first is made before a run has its directory
        with pytest.raises(InputError, match="at least 10"):
            use(settings_of(path))


def test_chance_is_the_reference(tmp_path: Path, trace: Trace) -> None:
    recorded(tmp_path / "d.parquet", trace)
    chance = Agreement(settings_of(tmp_path / "d.parquet", candidates=4)).references()["random"]
    assert chance["agreement"] == pytest.approx(0.25)
    assert chance["log_likelihood"] == pytest.approx(-np.log(4))


def small_recording(tmp_path: Path, trace: Trace) -> RunDirectory:
    recorded(tmp_path / "d.parquet", trace)
    changes = {"steps": 128, "evaluate_every": 64, "batch": 64}
    return small_run(
        tmp_path, "imitation", decisions=str(tmp_path / "d.parquet"), recorded_nodes="balance-6", **changes
    )


def test_the_checkpoint_tells_that_it_learned_from_a_recording(tmp_path: Path, trace: Trace) -> None:
    run = small_recording(tmp_path, trace)
    checkpoint = read_checkpoint(run.best)
    assert checkpoint.summary == "imitation, trained on recorded decisions"
    assert checkpoint.origin.seeds == {"settings": run.settings.seed}


def test_a_recording_that_has_changed_is_not_gone_on_with(tmp_path: Path, trace: Trace) -> None:
    run = small_recording(tmp_path, trace)
    recorded(tmp_path / "d.parquet", trace, "round-robin")
    with pytest.raises(InputError, match="the recording has changed since the training began"):
        train(RunDirectory.existing(run.path), lambda update: None)
