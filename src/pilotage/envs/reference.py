"""What chance and good heuristics reach in an environment, so that the results of agents mean something.

A return says little by itself: it depends on the weights of the objectives. Between that of random actions (0) and
that of the best heuristic (1) it is comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pilotage.envs.settings import EnvSettings
from pilotage.envs.vector import VectorCluster
from pilotage.envs.worlds import mix_of, source_of
from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.env_state import FIGURES
from pilotage.kernels.env_step import random_actions
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import (
    Policy,
    ask,
    prepared,
)
from pilotage.policies.choose import total_scores
from pilotage.policies.registry import find_policy
from pilotage.sim.seeds import TEST

Chooser = Callable[[VectorCluster, int], IntArray]  # of the clusters and the number of the step

RETURN: Final = FIGURES.index("return")
SEEDS: Final = TEST[:100]


HEURISTICS: Final = {
    "packing": ("fgd", "best-fit", "gpu-packing", "most-allocated"),
    "balance": ("least-allocated", "balanced-allocation", "round-robin"),
    "load": ("least-load", "least-allocated"),
}


@dataclass(frozen=True, slots=True)
class Reference:
    """Figures of random actions and of the heuristic with the highest mean return, an episode per row."""

    random_BM: FloatArray
    greedy_BM: FloatArray
    policy: str  # which heuristic that is

    @property
    def random(self) -> float:
        return float(self.random_BM[:, RETURN].mean())

    @property
    def greedy(self) -> float:
        return float(self.greedy_BM[:, RETURN].mean())

    def normalised(self, mean_return: float) -> float:
        """0 as random, 1 as the heuristic."""
        return (mean_return - self.random) / (self.greedy - self.random)


def reference(settings: EnvSettings, seeds: range = SEEDS) -> Reference:
    """Plays the episodes of the seeds, which follow one another."""
    played: list[tuple[FloatArray, str]] = []
    for name in HEURISTICS[settings.environment]:
        policy = find_policy(name)
        played.append((play(settings, seeds, policy_choice(policy, settings)), policy.name))
    best_BM, best = max(played, key=lambda one: float(one[0][:, RETURN].mean()))
    return Reference(play(settings, seeds, random_choice(seeds.start)), best_BM, best)


def play(settings: EnvSettings, seeds: range, choose: Chooser) -> FloatArray:
    """Figures of one episode per seed, all side by side; the columns are FIGURES."""
    vector = VectorCluster(settings, len(seeds), seeds.start, episodes=len(seeds))
    vector.reset()
    figures_BM, open_B = np.zeros((len(seeds), len(FIGURES))), np.ones(len(seeds), np.bool_)
    step = 0
    while open_B.any():
        buffers = vector.step(choose(vector, step))
        step += 1
        ended_B = open_B & buffers.done_B
        figures_BM[ended_B] = buffers.figures_BM[ended_B]
        open_B &= ~ended_B
    return figures_BM


def random_choice(seed: int) -> Chooser:
    """All nodes with room have the same chance."""

    def choose(vector: VectorCluster, step: int) -> IntArray:
        action_B = np.zeros(vector.copies, np.int64)
        random_actions(vector.buffers.mask_BN, seed, step, action_B)
        return action_B

    return choose


def policy_choice(policy: Policy, settings: EnvSettings) -> Chooser:
    """The node with the highest score, the first among equals. Devices are chosen by the environment."""
    ready = prepared(policy, mix_of(source_of(settings)))

    def choose(vector: VectorCluster, step: int) -> IntArray:
        batch = vector.decisions()
        score_BN = np.full(batch.feasible_BN.shape, INFEASIBLE)
        ask(ready, batch, score_BN, np.full(score_BN.shape, -1, np.int64))
        score_BN[~batch.feasible_BN] = INFEASIBLE
        if policy.normalise == "minmax":
            score_BN = np.stack([total_scores(score_N[None], minmax=True) for score_N in score_BN])
        chosen_B: IntArray = score_BN.argmax(axis=1)
        return chosen_B

    return choose
