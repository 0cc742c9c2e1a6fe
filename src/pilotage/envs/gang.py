"""When to divide the budget of a synchronous job anew, as a Gymnasium environment.

An action is 0 (keep the division) or the number of supersteps to divide anew for. What is seen has a row per action:
how far it is behind the best, predicted times of the next steps under its division, penalty and steps left
(`pilotage.kernels.gang_windows.observe`). The reward is minus what the superstep took beyond the exact division of it,
a new division's penalty included, in parts of the exact time.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from pilotage.gang.job import read_job
from pilotage.gang.sample_job import sample_job
from pilotage.gang.training_ground import Episode, Ground, training_ground
from pilotage.gang.window_policy import moment_for
from pilotage.kernels.gang_windows import INPUTS, act, observe
from pilotage.model.errors import InputError

SEEN_RANGE = (-1.0, 100.0)  # what is seen is far inside, but for penalties of a hundred supersteps
Seen = npt.NDArray[np.float32]


@lru_cache(maxsize=4)
def _ground(job: str | None, mixtures: int, seed: int) -> Ground:
    return training_ground(sample_job(seed) if job is None else read_job(Path(job)), mixtures, seed)


class GangEnv(gymnasium.Env[Seen, np.int64]):
    """Episodes are drawn from the rows before the supersteps of a job; without a file, of one made up by formulas."""

    metadata = {"render_modes": []}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(
        self,
        job: str | None = None,
        length: int = 100,
        mixtures: int = 1,
        seed: int = 0,
        ground: Ground | None = None,
        render_mode: str | None = None,
    ) -> None:
        if length < 1:
            raise InputError(f"{length}", field="length", expected="at least 1")
        self.render_mode, self.length = render_mode, length
        self.ground = _ground(job, mixtures, seed) if ground is None else ground
        self._moments = [moment_for(stretch) for stretch in self.ground.stretches]
        actions = self._moments[0].seen_AI.shape[0]
        self.actions = actions
        self.action_space = spaces.Discrete(actions)
        self.observation_space = spaces.Box(*SEEN_RANGE, (actions, INPUTS), np.float32)
        self.episode: Episode | None = None
        self._t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.episode = self.ground.draw(self.np_random, self.length, self.length)
        self._t = 0
        return self._look(), {"penalty": self.episode.penalty}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self.episode is None:
            raise gymnasium.error.ResetNeeded("the episode is over: reset comes next")
        if not 0 <= int(action) < self.actions:
            raise InputError(f"{action}", field="action", expected=f"0 to {self.actions - 1}")
        episode, begins = self.episode, self._t == 0
        n, t = episode.stretch, episode.first + self._t
        done = int(action) or int(begins)  # there is nothing to keep at the beginning
        seconds = act(self.ground.stretches[n], t, done, self._moments[n])
        paid = episode.penalty if done and not begins else 0.0
        exact = float(self.ground.exact_NT[n][t])
        self._t += 1
        over = self._t == episode.length
        if over:
            self.episode = None
            seen = np.zeros((self.actions, INPUTS), np.float32)
        else:
            seen = self._look()
        return seen, (exact - seconds - paid) / exact, over, False, {"seconds": seconds, "divided": bool(done)}

    def _look(self) -> Seen:
        assert self.episode is not None  # noqa: S101 - called within an episode
        n, left = self.episode.stretch, self.episode.length - self._t
        known, moment = self.ground.stretches[n], self._moments[n]
        observe(known, self.episode.first + self._t, left, self.episode.penalty, self._t > 0, moment)
        return np.clip(moment.seen_AI, *SEEN_RANGE).astype(np.float32)
