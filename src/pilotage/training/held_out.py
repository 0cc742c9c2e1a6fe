"""Validation on episodes that no training plays: each once, always the highest score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from pilotage.envs.vector import FIGURES, VectorCluster
from pilotage.policies.registry import find_policy
from pilotage.sim.seeds import VALIDATION
from pilotage.training.clusters import choice_of, observation_of
from pilotage.training.environments import environment_hash, environment_of
from pilotage.training.observation import Random, best, uniform
from pilotage.training.settings import TrainingSettings

GREEDY = {"balance": "least-allocated", "load": "least-allocated", "packing": "fgd"}

Chooser = Callable[[VectorCluster], Tensor]


class HeldOutEpisodes:
    """The first episodes of the range of validation seeds."""

    decides = "return"

    def __init__(self, settings: TrainingSettings) -> None:
        self.environment, self.episodes = environment_of(settings), settings.validation_episodes
        self.data_hash = environment_hash(settings)

    def measure(self, scorer: nn.Module) -> dict[str, float]:
        return self.played(partial(_best_of, scorer))

    def references(self) -> dict[str, dict[str, float]]:
        random, greedy = Random(VALIDATION.start), find_policy(GREEDY[self.environment.environment])
        found = {"random": self.played(lambda vector: uniform(torch.from_numpy(vector.buffers.mask_BN), random))}
        return found | {greedy.name: self.played(partial(choice_of, greedy))}

    def played(self, choose: Chooser) -> dict[str, float]:
        """Mean figures over all episodes, played side by side."""
        vector = VectorCluster(self.environment, self.episodes, VALIDATION.start, episodes=self.episodes)
        vector.reset()
        figures_BM, open_B = np.zeros_like(vector.buffers.figures_BM), np.ones(self.episodes, np.bool_)
        while open_B.any():
            buffers = vector.step(choose(vector).numpy())
            ended_B = open_B & buffers.done_B
            figures_BM[ended_B] = buffers.figures_BM[ended_B]
            open_B &= ~ended_B
        mean_M = figures_BM.mean(axis=0)
        return {name: float(mean) for name, mean in zip(FIGURES, mean_M, strict=True) if name != "seed"}


@torch.no_grad()
def _best_of(scorer: nn.Module, vector: VectorCluster) -> Tensor:
    return best(scorer(*observation_of(vector.buffers)))
