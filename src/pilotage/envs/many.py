"""Many clusters as a Gymnasium vector environment.

Learners of this project use VectorCluster itself, which copies nothing.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from pilotage.envs.observations import Observation, nothing_due, observation_space, observations
from pilotage.envs.settings import EnvSettings
from pilotage.envs.single import SEEDS
from pilotage.envs.vector import VectorCluster
from pilotage.kernels.env_state import FIGURES

BoolArray = npt.NDArray[np.bool_]
Step = tuple[Observation, npt.NDArray[np.float32], BoolArray, BoolArray, dict[str, Any]]


class ClusterVectorEnv(VectorEnv[Observation, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """An ended episode is followed by the next one in the same step; `final_info` has its figures."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int = 1, environment: str = "balance", render_mode: str | None = None, **changes: Any
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.settings = EnvSettings.of(environment, **changes)
        self.vector = VectorCluster(self.settings, copies=num_envs, seed=0)
        self.single_observation_space = observation_space(self.vector)
        self.single_action_space = spaces.Discrete(self.vector.nodes)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Episodes count on from the one seed, copy by copy and then in the order they begin."""
        super().reset(seed=seed, options=options)
        if seed is None and not self._begun:
            seed = int(self.np_random.integers(*SEEDS))
        self._begun = True
        buffers = self.vector.reset(seed)
        return observations(buffers), {"action_mask": buffers.mask_BN.astype(np.int8)}

    def step(self, actions: npt.NDArray[np.int64]) -> Step:
        if not self._begun:
            raise gymnasium.error.ResetNeeded("no episode has begun: reset comes first")
        buffers = self.vector.step(actions)
        shown, done_B = observations(buffers), buffers.done_B.copy()
        info: dict[str, Any] = {"action_mask": shown["mask"].copy()}
        if done_B.any():
            ended_BM = np.where(done_B[:, None], buffers.figures_BM, 0.0)
            info["final_info"] = {"figures": {name: ended_BM[:, m] for m, name in enumerate(FIGURES)}}
            info["final_obs"] = nothing_due(shown)
            info["_final_info"] = info["_final_obs"] = done_B
        return shown, buffers.reward_B.copy(), done_B, np.zeros(self.num_envs, np.bool_), info

    def action_masks(self) -> BoolArray:
        return self.vector.buffers.mask_BN.copy()
