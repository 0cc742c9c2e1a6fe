"""What a training leaves behind, when it ends, and how it goes on."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pilotage.model.errors import InputError
from pilotage.policies.checkpoints import read_checkpoint
from pilotage.policies.registry import find_policy
from pilotage.sim.protocols import openb_run
from pilotage.training.loop import Training, Update, train
from pilotage.training.run_directory import RunDirectory
from pilotage.training.settings import read_settings
from pilotage.workloads.trace import load_trace
from training.small import small_run, small_settings


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return small_run(tmp_path_factory.mktemp("run"), "dqn")


def rows(run: RunDirectory) -> list[dict[str, str]]:
    with (run.path / "curve.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_the_curve_has_a_row_per_validation(run: RunDirectory) -> None:
    assert [int(row["step"]) for row in rows(run)] == [0, 128, 256, 384, 512]
    assert {"validation_return", "validation_cpu_variance", "return", "cpu_variance", "loss"} <= set(rows(run)[0])


def test_the_best_checkpoint_is_the_one_with_the_best_validation(run: RunDirectory) -> None:
    returns = {int(row["step"]): float(row["validation_return"]) for row in rows(run)}
    checkpoint = read_checkpoint(run.best)
    assert checkpoint.name == "small@1"
    assert checkpoint.origin.training["step"] == max(returns, key=lambda step: returns[step])
    assert checkpoint.origin.scores["validation_return"] == pytest.approx(max(returns.values()))
    assert checkpoint.origin.training["agent"] == "dqn"
    assert checkpoint.origin.seeds["validation"] == [900_000, 900_003]
    assert len(checkpoint.origin.data_hash) == 64


def test_the_best_checkpoint_is_a_policy(run: RunDirectory) -> None:
    done = openb_run(load_trace(name="balance-3"), find_policy(str(run.best)), 42, 0)
    done.advance()
    assert (done.scene.progress.node_P >= 0).all()


def test_the_summary_stands_beside_random_and_greedy(run: RunDirectory) -> None:
    summary = json.loads((run.path / "summary.json").read_text())
    assert summary["validation"].keys() >= {"dqn", "random", "least-allocated@1"}
    assert summary["best"] == summary["validation"]["dqn"]["return"]
    assert (summary["agent"], summary["steps"]) == ("dqn", 512)


def test_the_log_tells_what_happened(run: RunDirectory) -> None:
    lines = (run.path / "train.log").read_text().splitlines()
    assert "dqn from step 0" in lines[0]
    assert [line.split(" step ")[1].split()[0] for line in lines[1:]] == ["0", "128", "256", "384", "512"]


def test_settings_are_written_first(run: RunDirectory) -> None:
    assert read_settings((run.path / "settings.json").read_text(), "") == ("dqn", run.settings)


def events(run: RunDirectory) -> EventAccumulator:
    found = EventAccumulator(str(run.events))
    found.Reload()
    return found


@pytest.mark.parametrize("agent", ["dqn", "ac-mlp"])
def test_tensorboard_has_its_curves(agent: str, tmp_path: Path) -> None:
    found = events(small_run(tmp_path, agent))
    losses = {"loss"} if agent == "dqn" else {"actor_loss", "critic_loss", "advantage"}
    assert {"return", "cpu_variance", "gpu_allocation", "validation_return"} | losses <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("validation_return")] == [0, 128, 256, 384, 512]
    counted = found.Histograms("actions")[-1].histogram_value
    assert counted.num == 128


def test_it_ends_when_validations_do_not_get_better(tmp_path: Path) -> None:
    run = small_run(tmp_path, "dqn", patience=2, learning_rate=0.0)
    assert [int(row["step"]) for row in rows(run)] == [0, 128, 256]


def test_who_watches_is_told_how_far_it_is(tmp_path: Path) -> None:
    told: list[Update] = []
    train(RunDirectory.fresh(tmp_path, "small", "dqn", small_settings("dqn")), told.append)
    assert [update.steps for update in told] == sorted(update.steps for update in told)
    assert told[-1].steps == told[-1].of == 512
    assert np.isfinite(told[-1].best)


class StoppedError(Exception):
    """In the middle of a training."""


def stop_at(step: int) -> Callable[[Update], None]:
    def watch(update: Update) -> None:
        if update.steps >= step:
            raise StoppedError

    return watch


def test_a_stopped_run_goes_on_from_its_newest_state_and_repeats_no_event(run: RunDirectory, tmp_path: Path) -> None:
    stopped = RunDirectory.fresh(tmp_path, "small", "dqn", run.settings)
    for step in (8, 200, 300, 512):
        with pytest.raises(StoppedError):
            train(RunDirectory.existing(stopped.path), stop_at(step))
    (stopped.path / ".best.1.old").mkdir()  # as a killed process leaves it
    train(RunDirectory.existing(stopped.path), lambda update: None)
    for name in ("curve.csv", "summary.json", "best/policy.json", "best/weights.safetensors", "state.safetensors"):
        assert (stopped.path / name).read_bytes() == (run.path / name).read_bytes(), name
    assert [event.step for event in events(stopped).Scalars("validation_return")] == [0, 128, 256, 384, 512]
    assert not list(stopped.path.glob(".*"))


def test_a_killed_process_costs_nothing_but_time(run: RunDirectory, tmp_path: Path) -> None:
    """A real one, and a real SIGKILL, wherever it happens to be after its first validation."""
    killed = RunDirectory.fresh(tmp_path, "small", "dqn", run.settings)
    command = [sys.executable, "-m", "pilotage", "train", "dqn", "--resume", str(killed.path), "--progress", "none"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (killed.path / "curve.csv").exists():
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    for name in ("curve.csv", "summary.json", "best/policy.json", "best/weights.safetensors", "state.safetensors"):
        assert (killed.path / name).read_bytes() == (run.path / name).read_bytes(), name


def test_two_processes_do_not_share_a_run(run: RunDirectory) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with run.log(), pytest.raises(InputError, match="another process is training there"):
        train(RunDirectory.existing(run.path), lambda update: None)
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_a_finished_run_is_not_carried_on(run: RunDirectory) -> None:
    before = (run.path / "curve.csv").read_bytes()
    train(RunDirectory.existing(run.path), lambda update: None)
    assert (run.path / "curve.csv").read_bytes() == before


def test_a_state_of_other_settings_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    other = RunDirectory.fresh(tmp_path, "other", "dqn", small_settings("dqn", hidden=16))
    other.state.write_bytes(run.state.read_bytes())
    with other.log() as log, pytest.raises(InputError, match="other settings"):
        Training(other, lambda update: None, log)


def test_names_are_drawn_by_the_seed_and_never_taken_twice(tmp_path: Path) -> None:
    settings = small_settings("dqn")
    names = [RunDirectory.fresh(tmp_path / out, None, "dqn", settings).path.name for out in ("a", "a", "b", "b")]
    assert names[:2] == names[2:]
    assert names[0] != names[1]


@pytest.mark.parametrize("name", ["", "a/b", "..", "Name", "a" * 200])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        RunDirectory.fresh(tmp_path, name, "dqn", small_settings("dqn"))


def test_a_name_that_is_taken_is_refused(run: RunDirectory) -> None:
    with pytest.raises(InputError, match="--resume"):
        RunDirectory.fresh(run.path.parent, "small", "dqn", run.settings)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"settings\.json"):
        RunDirectory.existing(tmp_path)
