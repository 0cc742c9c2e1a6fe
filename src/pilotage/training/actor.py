"""An actor that plays and a critic that says what was to be expected: what learning from advantages begins with."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.fresh_networks import fresh_critic, fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Observation, Random
from pilotage.training.rollout import advantages, collect
from pilotage.training.settings import ActorCriticSettings


class Lesson(NamedTuple):
    """Decisions of one rollout, of all steps and clusters together."""

    observation: Observation
    action_B: Tensor
    log_probability_B: Tensor  # of the action, when it was taken
    advantage_B: Tensor
    return_B: Tensor  # what the critic ought to have said: A + V_old(s)


class ActorWithCritic:
    """Two networks with their descents, and the clusters they play on."""

    def __init__(self, settings: ActorCriticSettings) -> None:
        self.random = Random(settings.seed)
        self.experience = self.clusters = Clusters(settings)
        self.scorer = fresh_scorer(settings)
        self.critic = fresh_critic(settings)
        self.actor_descent = Descent(self.scorer, settings.learning_rate, settings, settings.gradient_norm)
        self.critic_descent = Descent(self.critic, settings.critic_learning_rate, settings, settings.gradient_norm)
        self.averages = Averages()

    def parts(self) -> dict[str, Stateful]:
        networks: dict[str, Stateful] = {"scorer": self.scorer, "critic": self.critic}
        descents: dict[str, Stateful] = {"actor_descent": self.actor_descent, "critic_descent": self.critic_descent}
        return networks | descents | {"random": self.random, "clusters": self.clusters}

    def play(self, settings: ActorCriticSettings) -> Lesson:
        rollout = collect(self.clusters, self.scorer, self.critic, settings.rollout, self.random)
        advantage_TB = advantages(rollout, settings.gamma, settings.gae_lambda)
        return Lesson(
            rollout.observation_TB.flat(),
            rollout.action_TB.flatten(),
            rollout.log_probability_TB.flatten(),
            advantage_TB.flatten(),
            (advantage_TB + rollout.value_TB).flatten(),
        )
