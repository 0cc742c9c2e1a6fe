"""Settings: read, written, checked, and as words of a command line."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from contract.commands import pilotage
from pilotage.envs.settings import WORKLOADS
from pilotage.model.errors import InputError
from pilotage.training.environments import EPISODES, environment_of, first_training_seed, seeds_used
from pilotage.training.settings import (
    AGENTS,
    TrainingSettings,
    changed_options,
    default_settings,
    read_settings,
    search_ranges,
    settings_from,
    settings_text,
)


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_are_read_as_they_were_written(agent: str) -> None:
    changed = replace(AGENTS[agent], seed=7, learning_rate=0.0125, nodes="4-9")
    assert read_settings(settings_text(agent, changed), "here") == (agent, changed)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_number_has_bounds_and_its_default_within(agent: str) -> None:
    for entry in fields(AGENTS[agent]):
        value, bounds = getattr(AGENTS[agent], entry.name), entry.metadata["bounds"]
        assert isinstance(value, str) or bounds.least <= value <= bounds.most, entry.name


@pytest.mark.parametrize("agent", AGENTS)
def test_what_may_be_searched_for_lies_within_bounds(agent: str) -> None:
    bounds = {entry.name: entry.metadata["bounds"] for entry in fields(AGENTS[agent])}
    ranges = search_ranges(AGENTS[agent])
    assert "learning_rate" in ranges
    for name, (low, high, _) in ranges.items():
        assert bounds[name].least <= low < high <= bounds[name].most


def test_options_of_changed_settings_give_these_settings(tmp_path: Path) -> None:
    changed = settings_from("dqn", {"learning_rate": 0.1 + 0.2, "nodes": "4-9", "steps": 10, "network": "graph"})
    taken: list[TrainingSettings] = []

    def keep(path: Path, name: str | None, agent: str, settings: TrainingSettings) -> None:
        taken.append(settings)
        raise InputError("enough")

    with patch("pilotage.training.run_directory.RunDirectory.fresh", keep):
        assert pilotage("train", "dqn", *changed_options("dqn", changed), "--out", tmp_path).code == 2
    assert taken == [changed]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": "many"}, "type int"),
        ({"steps": True}, "type int"),
        ({"gamma": 1.5}, "0 to 1"),
        ({"network": "gat"}, "network"),
        ({"gama": 0.5}, "did you mean 'gamma'"),
        ({"agent": "dqm"}, "did you mean 'dqn'"),
        ({"agent": 3}, "agent"),
    ],
)
def test_bad_settings_are_refused_with_the_field(change: dict[str, object], problem: str) -> None:
    text = json.dumps({"agent": "dqn"} | asdict(default_settings("dqn")) | change)
    with pytest.raises(InputError, match=problem):
        read_settings(text, "settings.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"agent": "dqn", "steps": NaN}', b"\xff\xfe", '{"agent": "evolution"}']
)
def test_what_is_no_settings_is_refused(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"settings\.json"):
        read_settings(text, "settings.json")


def test_the_help_names_workloads_that_there_are() -> None:
    text = next(entry.metadata["help"] for entry in fields(TrainingSettings) if entry.name == "workload")
    assert {word for word in re.findall(r"[a-z-]+", text) if word in WORKLOADS} == {"uniform", "mixed", "openb-like"}
    assert environment_of(settings_from("dqn", {"env": "packing"})).workload == "openb-like"


def test_environments_come_from_settings() -> None:
    settings = settings_from("dqn", {"nodes": "4-9", "workload": "uniform", "objectives": "balance=2,load=1"})
    environment = environment_of(settings)
    assert environment.nodes == (4, 9)
    assert environment.workload == "uniform"
    assert dict(environment.objectives) == {"balance": 2.0, "load": 1.0}
    assert environment_of(settings_from("dqn", {"nodes": "7"})).nodes == (7, 7)


@pytest.mark.parametrize(
    "change",
    [{"nodes": "9-4"}, {"nodes": "some"}, {"objectives": "balance=x"}, {"objectives": "balanse=1"}, {"env": "golf"}],
)
def test_environments_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        environment_of(settings_from("dqn", change))


@pytest.mark.parametrize("seed", [0, 1, 5000])
def test_training_and_validation_share_no_seed(seed: int) -> None:
    used = seeds_used(settings_from("dqn", {"seed": seed, "validation_episodes": 10_000}))
    first = first_training_seed(seed)
    assert used["training"] == [first, first + EPISODES - 1]
    assert 10_000 <= first < first + EPISODES < 900_000
    assert used["validation"] == [900_000, 909_999]
