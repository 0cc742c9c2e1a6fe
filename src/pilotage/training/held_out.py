"""Validation on episodes that no training plays: each once, always the highest score."""

from __future__ import annotations

import torch
from torch import nn

from pilotage.envs.reference import play, reference
from pilotage.envs.vector import FIGURES, VectorCluster
from pilotage.model.workload import FloatArray, IntArray
from pilotage.sim.seeds import VALIDATION
from pilotage.training.clusters import observation_of
from pilotage.training.environments import environment_hash, environment_of, seeds_used
from pilotage.training.observation import best
from pilotage.training.settings import TrainingSettings


class HeldOutEpisodes:
    """The first episodes of the range of validation seeds."""

    decides = "return"

    def __init__(self, settings: TrainingSettings) -> None:
        self.environment = environment_of(settings)
        self.seeds = VALIDATION[: settings.validation_episodes]
        self.data, self.data_hash = settings.env, environment_hash(settings)
        self.seeds_used = seeds_used(settings)

    @torch.no_grad()
    def measure(self, scorer: nn.Module) -> dict[str, float]:
        def choose(vector: VectorCluster, step: int) -> IntArray:
            chosen_B: IntArray = best(scorer(*observation_of(vector.buffers))).numpy()
            return chosen_B

        return _means(play(self.environment, self.seeds, choose))

    def references(self) -> dict[str, dict[str, float]]:
        found = reference(self.environment, self.seeds)
        return {"random": _means(found.random_BM), found.policy: _means(found.greedy_BM)}


def _means(figures_BM: FloatArray) -> dict[str, float]:
    return {name: float(mean) for name, mean in zip(FIGURES, figures_BM.mean(axis=0), strict=True) if name != "seed"}
