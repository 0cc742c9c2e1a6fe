"""Decisions of an agent that learns from what it tries: mostly its own, some random or by a heuristic."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pilotage.training.clusters import Clusters
from pilotage.training.environments import policy_by_name
from pilotage.training.observation import Observation, Random, best, uniform
from pilotage.training.settings import RegressionSettings


class Explorer:
    """Epsilon-greedy, epsilon falling in a straight line over the first part of the training."""

    def __init__(self, settings: RegressionSettings, random: Random) -> None:
        self.settings, self.random = settings, random
        self.guide = None if settings.explore_with == "uniform" else policy_by_name(settings.explore_with, settings)

    def epsilon(self, steps: int) -> float:
        settings = self.settings
        over = settings.epsilon_decay * settings.steps
        fallen = min(1.0, steps / over) if over else 1.0
        return settings.epsilon + (settings.epsilon_least - settings.epsilon) * fallen

    @torch.no_grad()
    def choose(self, scorer: nn.Module, observation: Observation, clusters: Clusters) -> Tensor:
        own_B = best(scorer(*observation))
        other_B = uniform(observation.mask_BN, self.random) if self.guide is None else clusters.choice_by(self.guide)
        chance_B = torch.rand(len(own_B), generator=self.random.generator)
        return torch.where(chance_B < self.epsilon(clusters.steps), other_B, own_B)
