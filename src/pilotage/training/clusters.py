"""The clusters that an agent plays on, and an account of how it went."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pilotage.envs.reference import Chooser
from pilotage.envs.vector import FIGURES, Buffers, VectorCluster
from pilotage.training.environments import EPISODES, environment_of, first_training_seed
from pilotage.training.networks import rows_of
from pilotage.training.observation import Observation
from pilotage.training.settings import TrainingSettings


def observation_of(buffers: Buffers) -> Observation:
    """A copy: the next step overwrites the buffers."""
    rows_BNI = rows_of(torch.from_numpy(buffers.node_BNI), torch.from_numpy(buffers.pod_BI))
    return Observation(
        rows_BNI,
        torch.from_numpy(buffers.mask_BN.copy()),
        torch.from_numpy(buffers.rack_BN.copy()),
        torch.from_numpy(buffers.zone_BN.copy()),
    )


class Clusters:
    """Steps all copies at once; counts steps, rewards, actions and the figures of ended episodes."""

    def __init__(self, settings: TrainingSettings) -> None:
        seed = first_training_seed(settings.seed)
        self.vector = VectorCluster(environment_of(settings), settings.copies, seed, episodes=EPISODES)
        self.vector.reset()
        self.steps = 0
        self.reward_squares = 0.0
        self._episodes: list[np.ndarray] = []
        self._actions: list[Tensor] = []

    def observe(self) -> Observation:
        return observation_of(self.vector.buffers)

    def choice_by(self, choose: Chooser) -> Tensor:
        """What somebody else would do now."""
        return torch.from_numpy(choose(self.vector, self.steps))

    def step(self, action_B: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards as the environment gives them, and which episodes ended."""
        buffers = self.vector.step(action_B.numpy())
        self.steps += len(action_B)
        self.reward_squares += float(np.square(buffers.reward_B, dtype=np.float64).sum())
        if buffers.done_B.any():
            self._episodes.append(buffers.figures_BM[buffers.done_B])
        self._actions.append(action_B)
        return torch.from_numpy(buffers.reward_B.copy()), torch.from_numpy(buffers.done_B.copy())

    @property
    def reward_scale(self) -> float:
        """Brings rewards to the order of 1: the inverse of their root mean square so far."""
        mean = self.reward_squares / max(1, self.steps)
        return float(mean**-0.5) if mean > 0 else 1.0

    def passed(self, every: int) -> int:
        """How many multiples of `every` the newest step has passed."""
        return self.steps // every - (self.steps - self.vector.copies) // every

    def take_figures(self) -> dict[str, float]:
        if not self._episodes:
            return {}
        mean_M = np.concatenate(self._episodes).mean(axis=0)
        self._episodes.clear()
        return {name: float(mean) for name, mean in zip(FIGURES, mean_M, strict=True) if name != "seed"}

    def take_actions(self) -> Tensor:
        actions = torch.cat(self._actions) if self._actions else torch.zeros(0, dtype=torch.int64)
        self._actions.clear()
        return actions

    def state_dict(self) -> dict[str, Any]:
        """Without the accounts: a state is saved when they have been taken."""
        return {"vector": self.vector.state(), "steps": self.steps, "reward_squares": self.reward_squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.vector.restore(state["vector"])
        self.steps, self.reward_squares = state["steps"], state["reward_squares"]
