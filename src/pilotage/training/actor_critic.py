"""Advantage actor-critic (Mnih et al. 2016) with generalised advantages (Schulman et al. 2016).

actor loss  = -mean(log pi(a | s) A) - entropy weight * mean entropy
critic loss = mean((V(s) - (A + V_old(s)))^2)
"""

from __future__ import annotations

from torch.nn.functional import mse_loss
from torch.optim import Adam

from pilotage.training.clusters import Clusters
from pilotage.training.descent import descend
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
        self.actor_optimiser = Adam(self.scorer.parameters(), lr=settings.learning_rate)
        self.critic_optimiser = Adam(self.critic.parameters(), lr=settings.critic_learning_rate)
        self.averages = Averages()

    def parts(self) -> dict[str, Stateful]:
        networks: dict[str, Stateful] = {"scorer": self.scorer, "critic": self.critic}
        optimisers: dict[str, Stateful] = {"actor_optimiser": self.actor_optimiser}
        optimisers |= {"critic_optimiser": self.critic_optimiser}
        return networks | optimisers | {"random": self.random, "clusters": self.clusters}

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
        descend(actor_loss, self.actor_optimiser, settings.gradient_norm)

        critic_loss = mse_loss(self.critic(*observation), return_B)
        descend(critic_loss, self.critic_optimiser, settings.gradient_norm)
        self.averages.add(
            actor_loss=actor_loss, critic_loss=critic_loss, advantage=advantage_TB.abs().mean(), entropy=spread
        )
