"""The scorer `mlp`: foretells the effect of a placement, measured on placements that were made.

loss = (score(chosen node) - reward)^2, over the newest decisions
"""

from __future__ import annotations

from torch.nn.functional import mse_loss

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.exploring import Explorer
from pilotage.training.fresh_networks import fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Random
from pilotage.training.replay import Replay
from pilotage.training.settings import RegressionSettings


class Regression:
    """Plays with some random decisions, learns from all."""

    def __init__(self, settings: RegressionSettings) -> None:
        self.settings = settings
        self.random = Random(settings.seed)
        self.experience = self.clusters = Clusters(settings)
        self.explorer = Explorer(settings, self.random)
        self.replay = Replay(settings.buffer, settings.batch, self.clusters.observe())
        self.scorer = fresh_scorer(settings)
        self.descent = Descent(self.scorer, settings.learning_rate, settings)
        self.averages = Averages()

    def parts(self) -> dict[str, Stateful]:
        networks: dict[str, Stateful] = {"scorer": self.scorer, "descent": self.descent}
        return networks | {"random": self.random, "clusters": self.clusters, "replay": self.replay}

    def advance(self) -> None:
        observation = self.clusters.observe()
        action_B = self.explorer.choose(self.scorer, observation, self.clusters)
        self.replay.add(observation, action_B, *self.clusters.step(action_B))
        for _ in range(self.clusters.passed(self.settings.update_every)):
            self.update()

    def update(self) -> None:
        if not self.replay.ready:
            return
        drawn = self.replay.draw(self.random)
        score_B = self.scorer(*drawn.observation).gather(-1, drawn.action_B[:, None])[:, 0]
        loss = mse_loss(score_B, drawn.reward_B * self.clusters.reward_scale)
        self.descent.step(loss, self.clusters.steps)
        self.averages.add(loss=loss)
