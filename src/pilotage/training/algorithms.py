"""From settings to the algorithm that has them, and to what judges its scorer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilotage.training.actor_critic import ActorCritic
from pilotage.training.dqn import Dqn
from pilotage.training.held_out import HeldOutEpisodes
from pilotage.training.imitation import PolicyImitation, RecordingImitation
from pilotage.training.learner import Learner, Validation
from pilotage.training.ppo import Ppo
from pilotage.training.recording import Agreement
from pilotage.training.regression import Regression
from pilotage.training.settings import ImitationSettings, TrainingSettings

ALGORITHMS: dict[str, Callable[[Any], Learner]] = {
    "regression": Regression,
    "dqn": Dqn,
    "actor_critic": ActorCritic,
    "ppo": Ppo,
    "imitation": PolicyImitation,
}


def make_learner(settings: TrainingSettings) -> Learner:
    if isinstance(settings, ImitationSettings) and settings.decisions:
        return RecordingImitation(settings)
    return ALGORITHMS[settings.algorithm](settings)


def make_validation(settings: TrainingSettings) -> Validation:
    if isinstance(settings, ImitationSettings) and settings.decisions:
        return Agreement(settings)
    return HeldOutEpisodes(settings)
