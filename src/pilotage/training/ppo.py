"""Proximal policy optimisation (Schulman et al. 2017), the clipped form.

ratio       = pi(a | s) / pi_old(a | s)
actor loss  = -mean(min(ratio A, clip(ratio, 1 - c, 1 + c) A)) - entropy weight * mean entropy
critic loss = mean((V(s) - (A + V_old(s)))^2)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from pilotage.training.actor import ActorWithCritic
from pilotage.training.observation import Observation
from pilotage.training.rollout import entropy, log_probability, normalised
from pilotage.training.settings import PpoSettings


class Ppo(ActorWithCritic):
    """Plays many steps, learns several times from each, never far from the policy that played them."""

    def __init__(self, settings: PpoSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    def advance(self) -> None:
        seen, action_B, old_B, advantage_B, return_B = self.play(self.settings)
        for _ in range(self.settings.epochs):
            order = torch.randperm(len(action_B), generator=self.random.generator)
            for part in torch.split(order, self.settings.batch):
                self.update_actor(seen.at(part), action_B[part], old_B[part], normalised(advantage_B[part]))
                self.update_critic(seen.at(part), return_B[part])
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
