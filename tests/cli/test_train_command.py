"""`pilotage train`: options, results, and what is refused before anything is written."""

from __future__ import annotations

import json
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage.training.settings import AGENTS

SMALL = ["--nodes", "3-4", "--copies", "8", "--hidden", "8", "--steps", "64", "--evaluate-every", "64"]
SMALL += ["--validation-episodes", "2", "--pods-per-node", "4"]


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_its_options_in_groups(agent: str) -> None:
    done = pilotage("train", agent, "--help")
    assert (done.code, done.err) == (0, "")
    for word in ("Environment", "Network", "Learning", "Course", "--resume", "--json", "--heads", "--threads"):
        assert word in done.out
    assert f"Example: pilotage train {agent}" in " ".join(done.out.split())


def test_options_that_users_of_other_schedulers_know_are_there() -> None:
    text = pilotage("train", "dqn", "--help").out
    known = "--epsilon --epsilon-decay --gamma --learning-rate --buffer --update-every --target-update-every --batch"
    for word in f"{known} --hidden --depth --explore-with --progress --seed".split():
        assert word in text


def test_a_training_ends_with_a_policy_and_a_summary(tmp_path: Path) -> None:
    done = pilotage("train", "dqn", *SMALL, "--out", tmp_path, "--name", "mine", "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["validation"].keys() == {"dqn", "random", "least-allocated@1"}
    assert summary == json.loads((tmp_path / "mine" / "summary.json").read_text())
    assert f"dqn in {tmp_path / 'mine'}" in done.err
    assert "mine@1" in pilotage("policies", "--show", tmp_path / "mine" / "best").out
    again = pilotage("train", "dqn", "--resume", tmp_path / "mine")
    assert again.code == 0, again.err
    assert str(tmp_path / "mine" / "best") in again.out


@pytest.mark.parametrize(("progress", "lines"), [("line", 1), ("log", 4), ("none", 1)])
def test_the_log_can_be_watched(progress: str, lines: int, tmp_path: Path) -> None:
    done = pilotage("train", "mlp", *SMALL, "--out", tmp_path, "--name", "mine", "--progress", progress)
    assert done.code == 0, done.err
    assert len(done.err.splitlines()) == lines
    logged = [line.split(" ", 2)[2] for line in (tmp_path / "mine" / "train.log").read_text().splitlines()]
    assert ("\n".join(logged) in done.err) == (progress == "log")
    again = pilotage("train", "mlp", "--resume", tmp_path / "mine", "--progress", progress)
    assert (again.code, len(again.err.splitlines())) == (0, 2 if progress == "log" else 1)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["dqn", "--env", "golf"], "golf"),
        (["dqn", "--nodes", "9-3"], "nodes"),
        (["dqn", "--objectives", "balance=x"], "--objectives"),
        (["dqn", "--name", "Not A Name"], "--name"),
        (["dqn", "--buffer", "100"], "--buffer"),
        (["gnn-dqn", "--hidden", "30", "--steps", "8"], "--heads"),
        (["dqn", "--explore-with", "least-allocatet", "--steps", "8"], "did you mean 'least-allocated'"),
        (["imitation", "--of", "nobody", "--steps", "8"], "nobody"),
        (["imitation", "--decisions", "absent.parquet"], "--recorded-nodes"),
        (["dqn", "--resume", "nowhere"], "settings.json"),
        (["search", "dqm"], "did you mean 'dqn'"),
        (["search", "dqn", "--set", "steps"], "--set"),
    ],
    ids=lambda value: " ".join(value[1:3]) if isinstance(value, list) else None,
)
def test_bad_input_is_refused_with_the_reason(words: list[str], problem: str, tmp_path: Path) -> None:
    place = [] if "--resume" in words else ["--out", tmp_path]
    done = pilotage("train", *words, *place)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_settings_beside_resume_are_refused(tmp_path: Path) -> None:
    done = pilotage("train", "dqn", "--resume", tmp_path, "--gamma", "0.5")
    assert done.code == 2
    assert "--gamma" in done.err


def test_settings_beside_a_resumed_search_are_refused(tmp_path: Path) -> None:
    done = pilotage("train", "search", "dqn", "--resume", tmp_path, "--set", "gamma=0.5")
    assert done.code == 2
    assert "--set" in done.err


def test_a_run_of_another_agent_is_not_resumed(tmp_path: Path) -> None:
    assert pilotage("train", "mlp", *SMALL, "--out", tmp_path, "--name", "mine").code == 0
    done = pilotage("train", "dqn", "--resume", tmp_path / "mine")
    assert done.code == 2
    assert f"pilotage train mlp --resume {tmp_path / 'mine'}" in done.err


def test_a_search_prints_the_command_that_uses_what_it_found(tmp_path: Path) -> None:
    settings = [word for name in zip(SMALL[::2], SMALL[1::2], strict=True) for word in ("--set", "=".join(name)[2:])]
    done = pilotage("train", "search", "mlp", "--trials", "2", *settings, "--out", tmp_path, "--name", "look")
    assert done.code == 0, done.err
    assert "best of 2" in done.out
    command = next(line for line in done.out.splitlines() if line.startswith("pilotage train mlp"))
    assert "--steps 64" in command
    assert "--learning-rate" in command
    again = pilotage("train", "search", "mlp", "--trials", "2", "--resume", tmp_path / "look", "--json")
    assert json.loads(again.out)["settings"]["steps"] == 64


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = util.find_spec

    def without_torch(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "torch" else real(name, package)

    monkeypatch.setattr(util, "find_spec", without_torch)
    done = pilotage("train", "dqn", "--out", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "pip install 'pilotage[train]'" in done.err
