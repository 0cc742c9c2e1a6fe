"""Advantage actor-critic (Mnih et al. 2016) with generalised advantages (Schulman et al. 2016).

actor loss  = -mean(log pi(a | s) A) - entropy weight * mean entropy
critic loss = mean((V(s) - (A + V_old(s)))^2)
"""

from __future__ import annotations

from torch.nn.functional import mse_loss

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.fresh_networks import fresh_critic, fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Random
from pilotage.training.rollout import advantages, collect, entropy, log_probability, normalised
from pilotage.training.settings import ActorCriticSettings


class ActorCritic:
    """Plays a few steps, learns once from each."""

    def __init__(self, settings: ActorCriticSettings) -> None:
        self.settings = settings
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

    def advance(self) -> None:
        settings = self.settings
        rollout = collect(self.clusters, self.scorer, self.critic, settings.rollout, self.random)
        advantage_TB = advantages(rollout, settings.gamma, settings.gae_lambda)
        return_B = (advantage_TB + rollout.value_TB).flatten()
        observation, action_B = rollout.observation_TB.flat(), rollout.action_TB.flatten()

        logits_BN = self.scorer(*observation)
        log_probability_B = log_probability(logits_BN, action_B)
        spread = entropy(logits_BN).mean()
        actor_loss = -(log_probability_B * normalised(advantage_TB.flatten())).mean() - settings.entropy * spread
        self.actor_descent.step(actor_loss, self.clusters.steps)

        critic_loss = mse_loss(self.critic(*observation), return_B)
        self.critic_descent.step(critic_loss, self.clusters.steps)
        self.averages.add(
            actor_loss=actor_loss, critic_loss=critic_loss, advantage=advantage_TB.abs().mean(), entropy=spread
        )
