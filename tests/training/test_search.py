"""The search for better settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pilotage.model.errors import InputError
from pilotage.training import search as search_module
from pilotage.training.loop import train
from pilotage.training.run_directory import alone_in
from pilotage.training.search import Search, parse_settings
from training.small import SMALL, small_run

TRIALS = 3


SMALLER = SMALL | {"steps": 128, "evaluate_every": 128, "update_every": 16}


def small_search(out: Path, **given: object) -> Search:
    return Search.fresh(out, "look", "dqn", SMALLER | {"gamma": 0.25, "buffer": 2048} | given)


def values(search: Search, trials: int = TRIALS) -> list[tuple[int, float]]:
    told: list[tuple[int, float]] = []
    search.carry_on(trials, lambda number, value: told.append((number, value)))
    return told


def test_the_best_trial_is_found_within_the_ranges(tmp_path: Path) -> None:
    search = small_search(tmp_path)
    told = values(search)
    found = search.carry_on(TRIALS, lambda number, value: pytest.fail("all trials are done"))
    assert [number for number, _ in told] == [0, 1, 2]
    assert found.value == max(value for _, value in told)
    assert (found.trial, found.value) in told
    assert search.ranges.keys() == {"depth", "learning_rate", "batch"}
    for name, (low, high, _) in search.ranges.items():
        assert low <= getattr(found.settings, name) <= high
    same = {name for name, value in asdict(search.settings).items() if asdict(found.settings)[name] == value}
    assert same >= {"steps", "nodes", "copies", "seed", "hidden", "gamma"}
    assert (search.path / "trial-0002" / "best" / "policy.json").exists()


def test_a_trial_that_diverges_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, calls = small_search(tmp_path), 0

    def second_diverges(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InputError("the training diverged")
        return train(*arguments)

    monkeypatch.setattr(search_module, "train", second_diverges)
    told: list[tuple[int, str]] = []
    found = search.carry_on(2, lambda number, value: None, lambda number, reason: told.append((number, reason)))
    assert found.trials == 2
    assert told == [(1, "the training diverged")]
    monkeypatch.setattr(search_module, "MOST_DIVERGED", 1)
    calls = 1
    with pytest.raises(InputError, match="diverged"):
        values(search, 3)


def test_a_search_that_was_cut_off_ends_like_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [value for _, value in values(small_search(tmp_path / "whole"))]
    search = small_search(tmp_path / "cut")
    first = values(search, 1)

    def cut(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search_module, "train", cut)
        with pytest.raises(KeyboardInterrupt):
            values(search)
    again = Search.existing(search.path, "dqn")
    assert again == search
    rest = values(again)
    assert [value for _, value in first + rest] == expected


def test_two_processes_do_not_share_a_search(tmp_path: Path) -> None:
    search = small_search(tmp_path)
    with alone_in(search.path), pytest.raises(InputError, match="another process is training there"):
        values(search)
    assert not (search.path / "journal.log").exists()


def test_widths_are_shared_by_the_heads(tmp_path: Path) -> None:
    given = {name: value for name, value in SMALLER.items() if name != "hidden"}
    search = Search.fresh(tmp_path, "graph", "gnn-dqn", given | {"steps": 64, "evaluate_every": 64, "batch": 16})
    assert search.carry_on(1, lambda number, value: None).settings.hidden % 4 == 0


def test_settings_of_all_trials_are_read() -> None:
    given = parse_settings("dqn", ["steps=500", "learning-rate=0.01", "nodes=3-4"])
    assert given == {"steps": 500, "learning_rate": 0.01, "nodes": "3-4"}


@pytest.mark.parametrize("text", ["steps", "steps=x", "step=5", "=5"])
def test_settings_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_settings("dqn", [text])


def test_a_search_of_another_agent_is_refused(tmp_path: Path) -> None:
    search = small_search(tmp_path)
    with pytest.raises(InputError, match="no search for this agent"):
        Search.existing(search.path, "ppo")


def test_a_training_is_no_search(tmp_path: Path) -> None:
    run = small_run(tmp_path, "dqn", steps=128)
    with pytest.raises(InputError, match="no search for this agent"):
        Search.existing(run.path, "dqn")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"env": "golf"}, "golf"),
        ({"buffer": 10}, "--buffer"),
        ({"depth": 2, "learning_rate": 0.01, "batch": 16}, "nothing to search for"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    tmp_path: Path, given: dict[str, object], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        small_search(tmp_path, **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_a_damaged_search_is_refused(tmp_path: Path, text: str) -> None:
    search = small_search(tmp_path)
    (search.path / "fixed.json").write_text(text)
    with pytest.raises(InputError, match=r"fixed\.json"):
        Search.existing(search.path, "dqn")
