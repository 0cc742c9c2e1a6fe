"""Proximal policy optimisation (Schulman et al. 2017), the clipped form.

ratio       = pi(a | s) / pi_old(a | s)
actor loss  = -mean(min(ratio A, clip(ratio, 1 - c, 1 + c) A)) - entropy weight * mean entropy
critic loss = mean((V(s) - (A + V_old(s)))^2)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.fresh_networks import fresh_critic, fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Observation, Random
from pilotage.training.rollout import advantages, collect, entropy, log_probability, normalised
from pilotage.training.settings import PpoSettings


class Ppo:
    """Plays many steps, learns several times from each, never far from the policy that played them."""

    def __init__(self, settings: PpoSettings) -> None:
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
        old_B, advantage_B = rollout.log_probability_TB.flatten(), advantage_TB.flatten()
        for _ in range(settings.epochs):
            order = torch.randperm(len(action_B), generator=self.random.generator)
            for part in torch.split(order, settings.batch):
                seen = observation.at(part)
                self.update_actor(seen, action_B[part], old_B[part], normalised(advantage_B[part]))
                self.update_critic(seen, return_B[part])
        self.averages.add(advantage=advantage_B.abs().mean())

    def update_actor(self, observation: Observation, action_B: Tensor, old_B: Tensor, advantage_B: Tensor) -> None:
        logits_BN = self.scorer(*observation)
        ratio_B = (log_probability(logits_BN, action_B) - old_B).exp()
        clipped_B = ratio_B.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        spread = entropy(logits_BN).mean()
        loss = -torch.min(ratio_B * advantage_B, clipped_B * advantage_B).mean() - self.settings.entropy * spread
        self.actor_descent.step(loss, self.clusters.steps)
        self.averages.add(actor_loss=loss, entropy=spread)

    def update_critic(self, observation: Observation, return_B: Tensor) -> None:
        loss = mse_loss(self.critic(*observation), return_B)
        self.critic_descent.step(loss, self.clusters.steps)
        self.averages.add(critic_loss=loss)
