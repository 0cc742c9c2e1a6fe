"""One cluster as a Gymnasium environment: each decision is a pod, each action the number of a node."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pilotage.envs.observations import Observation, figures, nothing_due, observation_space, observations
from pilotage.envs.settings import EnvSettings
from pilotage.envs.vector import VectorCluster

SEEDS = (10_000, 900_000)  # an environment that gets no seed draws one that trainings use


class ClusterEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """`changes` are fields of EnvSettings. The seed of a reset is that of its episode; the next ones count on from it.

    An action without room is never carried out: the pod stays without a node and the reward is minus the penalty.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, environment: str = "balance", render_mode: str | None = None, **changes: Any) -> None:
        self.render_mode = render_mode
        self.settings = EnvSettings.of(environment, **changes)
        self.vector = VectorCluster(self.settings, copies=1, seed=0)
        self.observation_space = observation_space(self.vector)
        self.action_space = spaces.Discrete(self.vector.nodes)
        self._begun, self._over = False, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is None and not self._begun:
            seed = int(self.np_random.integers(*SEEDS))
        if seed is not None or not self._over:  # else the last step has begun the next episode already
            self.vector.reset(seed)
        self._begun, self._over = True, False
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: reset comes next")
        buffers = self.vector.step([action])
        self._over = bool(buffers.done_B[0])
        if self._over:
            over = nothing_due(self._observation())
            info = {"action_mask": over["mask"], "figures": figures(buffers, 0)}
            return over, float(buffers.reward_B[0]), True, False, info
        return self._observation(), float(buffers.reward_B[0]), False, False, self._info()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Nodes with room for the pod, under the name that sb3-contrib looks for."""
        mask_N: npt.NDArray[np.bool_] = self.vector.buffers.mask_BN[0].copy()
        return mask_N

    def _observation(self) -> Observation:
        return {key: array[0] for key, array in observations(self.vector.buffers).items()}

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.vector.buffers.mask_BN[0].astype(np.int8)}
