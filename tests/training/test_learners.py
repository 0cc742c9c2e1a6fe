"""All agents: they learn, they can be stopped and go on, and the seed decides everything."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import pytest
import torch

from pilotage.model.errors import InputError
from pilotage.training.algorithms import make_learner
from pilotage.training.dqn import Dqn
from pilotage.training.exploring import Explorer
from pilotage.training.held_out import HeldOutEpisodes
from pilotage.training.learner import Learner
from pilotage.training.networks import NO_CANDIDATE
from pilotage.training.observation import Observation, Random
from pilotage.training.replay import Transitions
from pilotage.training.settings import AGENTS, DqnSettings, RegressionSettings
from pilotage.training.state import read_state, write_state
from training.small import small_run, small_settings

COURSE = ("settings.json", "curve.csv", "summary.json", "best/policy.json", "best/weights.safetensors")


def weights(learner: Learner) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in learner.scorer.parameters()]


def play(learner: Learner, rounds: int) -> None:
    for _ in range(rounds):
        learner.advance()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_seed_decides_every_byte(agent: str, tmp_path: Path) -> None:
    one, two = (small_run(tmp_path / name, agent) for name in ("one", "two"))
    for name in COURSE:
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name
    other = small_run(tmp_path / "other", agent, seed=2)
    assert (one.path / COURSE[-1]).read_bytes() != (other.path / COURSE[-1]).read_bytes()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_saved_learner_goes_on_as_if_nothing_had_been(agent: str, tmp_path: Path) -> None:
    settings = small_settings(agent)
    learner = make_learner(settings)
    for _ in range(9):
        learner.advance()
    write_state(tmp_path / "state", {name: part.state_dict() for name, part in learner.parts().items()})
    for _ in range(5):
        learner.advance()
    other, saved = make_learner(settings), read_state(tmp_path / "state")
    for name, part in other.parts().items():
        part.load_state_dict(saved[name])
    for _ in range(5):
        other.advance()
    assert other.experience.steps == learner.experience.steps
    assert all(torch.equal(a, b) for a, b in zip(weights(learner), weights(other), strict=True))


@pytest.mark.parametrize("agent", sorted(AGENTS.keys() - {"imitation"}))
def test_a_training_that_diverges_ends_with_the_reason(agent: str) -> None:
    learner = make_learner(small_settings(agent, objectives="balance=1e300"))
    with pytest.raises(InputError, match=r"diverged: a loss is nan at step \d+; expected a smaller --learning-rate"):
        play(learner, 20)


@pytest.mark.parametrize("agent", AGENTS)
def test_it_learns_and_never_names_a_node_without_room(agent: str) -> None:
    learner = make_learner(small_settings(agent, pods_per_node=60.0))
    before = weights(learner)
    while learner.experience.steps < 2400:
        learner.advance()
    assert any(not torch.equal(a, b) for a, b in zip(before, weights(learner), strict=True))
    figures, averages = learner.experience.take_figures(), learner.averages.take()
    assert figures["refused"] == 0
    assert figures["placed"] > 0
    assert all(torch.isfinite(torch.tensor(value)) for value in averages.values())
    assert {"loss"} <= set(averages) or {"actor_loss", "critic_loss", "advantage"} <= set(averages)


def test_values_of_what_follows_are_those_of_double_dqn() -> None:
    learner = Dqn(cast(DqnSettings, small_settings("dqn", gamma=0.5)))
    learner.clusters.steps, learner.clusters.reward_squares = 4, 16.0  # rewards are halved

    class Table(torch.nn.Module):
        """Scores that are written down."""

        def __init__(self, scores: list[list[float]]) -> None:
            super().__init__()
            self.scores = torch.tensor(scores)

        def forward(self, *observation: torch.Tensor) -> torch.Tensor:
            return self.scores

    learner.scorer = Table([[1.0, 3.0, NO_CANDIDATE], [5.0, 4.0, 0.0]])  # type: ignore[assignment]
    learner.target = Table([[10.0, 20.0, 99.0], [30.0, 99.0, 99.0]])  # type: ignore[assignment]
    seen = Observation(*(torch.zeros(2, 3) for _ in range(4)))
    drawn = Transitions(seen, torch.tensor([0, 1]), torch.tensor([2.0, 4.0]), torch.tensor([False, True]), seen)
    assert learner.wanted(drawn).tolist() == [1.0 + 0.5 * 20.0, 2.0]


def test_the_target_network_is_behind_and_then_renewed() -> None:
    learner = Dqn(cast(DqnSettings, small_settings("dqn", target_update_every=256, batch=8, update_every=8)))
    first = copy.deepcopy(learner.target.state_dict())
    while learner.clusters.steps < 248:
        learner.advance()
    assert all(torch.equal(first[name], tensor) for name, tensor in learner.target.state_dict().items())
    learner.advance()
    mine = learner.scorer.state_dict()
    assert all(torch.equal(mine[name], tensor) for name, tensor in learner.target.state_dict().items())
    assert any(not torch.equal(first[name], tensor) for name, tensor in mine.items())


def test_epsilon_falls_in_a_straight_line_to_its_least() -> None:
    changes = {"epsilon": 0.9, "epsilon_least": 0.1, "epsilon_decay": 0.5, "steps": 1000}
    explorer = Explorer(cast(RegressionSettings, small_settings("dqn", **changes)), Random(0))
    assert [explorer.epsilon(steps) for steps in (0, 250, 500, 1000)] == pytest.approx([0.9, 0.5, 0.1, 0.1])


def test_a_heuristic_can_lead_the_exploration() -> None:
    settings = cast(RegressionSettings, small_settings("dqn", explore_with="least-allocated", epsilon_decay=1.0))
    learner = make_learner(settings)
    while learner.experience.steps < 2000:
        learner.advance()  # nearly all decisions are the heuristic's: epsilon starts at 1
    led = learner.experience.take_figures()["return"]
    learner = make_learner(small_settings("dqn", epsilon_decay=1.0))
    while learner.experience.steps < 2000:
        learner.advance()
    assert led > learner.experience.take_figures()["return"]


@pytest.mark.parametrize("agent", ["mlp", "dqn"])
def test_a_short_training_is_far_ahead_of_chance(agent: str) -> None:
    settings = small_settings(agent, steps=6000, copies=16, hidden=32, batch=128, learning_rate=0.003)
    learner, validation = make_learner(settings), HeldOutEpisodes(settings)
    while learner.experience.steps < settings.steps:
        learner.advance()
    found, references = validation.measure(learner.scorer), validation.references()
    assert found["cpu_variance"] < references["random"]["cpu_variance"] / 2


def test_a_pupil_of_least_allocated_agrees_with_it() -> None:
    learner = make_learner(small_settings("imitation", workload="uniform", steps=4000, learning_rate=0.01))
    while learner.experience.steps < 4000:
        if learner.experience.steps == 2000:
            learner.averages.take()
        learner.advance()
    assert learner.averages.take()["agreement"] > 0.6
