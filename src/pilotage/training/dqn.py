"""Double DQN (van Hasselt et al. 2016) over candidates: the score of a node is its Q.

y = r + gamma Q_target(s', argmax over candidates a of Q(s', a)), or r where the episode ended
loss = Huber(Q(s, a) - y)
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.exploring import Explorer
from pilotage.training.fresh_networks import fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Random
from pilotage.training.replay import Replay, Transitions
from pilotage.training.settings import DqnSettings


class Dqn:
    """One network that decides, one that is a while behind and judges what follows."""

    def __init__(self, settings: DqnSettings) -> None:
        self.settings = settings
        self.random = Random(settings.seed)
        self.experience = self.clusters = Clusters(settings)
        self.explorer = Explorer(settings, self.random)
        self.replay = Replay(settings.buffer, settings.batch, self.clusters.observe())
        self.scorer = fresh_scorer(settings)
        self.target = copy.deepcopy(self.scorer).requires_grad_(False)
        self.descent = Descent(self.scorer, settings.learning_rate, settings)
        self.averages = Averages()

    def parts(self) -> dict[str, Stateful]:
        networks: dict[str, Stateful] = {"scorer": self.scorer, "target": self.target, "descent": self.descent}
        return networks | {"random": self.random, "clusters": self.clusters, "replay": self.replay}

    def advance(self) -> None:
        observation = self.clusters.observe()
        action_B = self.explorer.choose(self.scorer, observation, self.clusters)
        self.replay.add(observation, action_B, *self.clusters.step(action_B))
        for _ in range(self.clusters.passed(self.settings.update_every)):
            self.update()
        if self.clusters.passed(self.settings.target_update_every):
            self.target.load_state_dict(self.scorer.state_dict())

    def update(self) -> None:
        if not self.replay.ready:
            return
        drawn = self.replay.draw(self.random)
        q_B = self.scorer(*drawn.observation).gather(-1, drawn.action_B[:, None])[:, 0]
        loss = huber_loss(q_B, self.wanted(drawn))
        self.descent.step(loss, self.clusters.steps)
        self.averages.add(loss=loss, q=q_B.mean())

    @torch.no_grad()
    def wanted(self, drawn: Transitions) -> Tensor:
        """y: the reward and the discounted worth of the next decision."""
        next_B1 = self.scorer(*drawn.after).argmax(dim=-1, keepdim=True)
        worth_B: Tensor = self.target(*drawn.after).gather(-1, next_B1)[:, 0]
        reward_B = drawn.reward_B * self.clusters.reward_scale
        return reward_B + self.settings.gamma * worth_B.masked_fill(drawn.done_B, 0.0)
