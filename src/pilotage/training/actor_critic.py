"""Advantage actor-critic (Mnih et al. 2016) with generalised advantages (Schulman et al. 2016).

actor loss  = -mean(log pi(a | s) A) - entropy weight * mean entropy
critic loss = mean((V(s) - (A + V_old(s)))^2)
"""

from __future__ import annotations

from torch.nn.functional import mse_loss

from pilotage.training.actor import ActorWithCritic
from pilotage.training.rollout import entropy, log_probability, normalised
from pilotage.training.settings import ActorCriticSettings


class ActorCritic(ActorWithCritic):
    """Plays a few steps, learns once from each."""

    def __init__(self, settings: ActorCriticSettings) -> None:
        super().__init__(settings)
        self.settings = settings

    def advance(self) -> None:
        lesson = self.play(self.settings)

        logits_BN = self.scorer(*lesson.observation)
        log_probability_B = log_probability(logits_BN, lesson.action_B)
        spread = entropy(logits_BN).mean()
        actor_loss = -(log_probability_B * normalised(lesson.advantage_B)).mean() - self.settings.entropy * spread
        self.actor_descent.step(actor_loss, self.clusters.steps)

        critic_loss = mse_loss(self.critic(*lesson.observation), lesson.return_B)
        self.critic_descent.step(critic_loss, self.clusters.steps)
        self.averages.add(
            actor_loss=actor_loss, critic_loss=critic_loss, advantage=lesson.advantage_B.abs().mean(), entropy=spread
        )
