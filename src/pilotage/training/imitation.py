"""Imitation: the node that somebody else chose is to have the highest score.

loss = -log softmax(scores)[chosen node]

Of a policy by name: it is asked about every decision in the environments. Some steps the learner decides, so that it
also learns what to do where its own mistakes lead (Ross et al. 2011). Of a recording: its decisions, again and again.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pilotage.training.clusters import Clusters
from pilotage.training.descent import Descent
from pilotage.training.environments import policy_by_name
from pilotage.training.fresh_networks import fresh_scorer
from pilotage.training.learner import Averages, Stateful
from pilotage.training.observation import Observation, Random, best
from pilotage.training.recording import Recording
from pilotage.training.replay import Replay
from pilotage.training.settings import ImitationSettings


class _Pupil:
    """A scorer that is told which node was chosen."""

    def __init__(self, settings: ImitationSettings) -> None:
        self.settings = settings
        self.random = Random(settings.seed)
        self.scorer = fresh_scorer(settings)
        self.descent = Descent(self.scorer, settings.learning_rate, settings)
        self.averages = Averages()

    def parts(self) -> dict[str, Stateful]:
        return {"scorer": self.scorer, "descent": self.descent, "random": self.random}

    def learn(self, observation: Observation, chosen_B: Tensor, steps: int) -> None:
        scores_BN = self.scorer(*observation)
        loss = cross_entropy(scores_BN, chosen_B)
        self.descent.step(loss, steps)
        self.averages.add(loss=loss, agreement=(best(scores_BN) == chosen_B).float().mean())


class PolicyImitation(_Pupil):
    """Of a policy, in the environments."""

    def __init__(self, settings: ImitationSettings) -> None:
        super().__init__(settings)
        self.shown = policy_by_name(settings.of, settings)
        self.experience = Clusters(settings)
        self.replay = Replay(settings.buffer, settings.batch, self.experience.observe())

    def parts(self) -> dict[str, Stateful]:
        return super().parts() | {"clusters": self.experience, "replay": self.replay}

    def advance(self) -> None:
        observation = self.experience.observe()
        shown_B = self.experience.choice_by(self.shown)
        with torch.no_grad():
            own_B = best(self.scorer(*observation))
        chance_B = torch.rand(len(own_B), generator=self.random.generator)
        reward_B, done_B = self.experience.step(torch.where(chance_B < self.settings.own_decisions, own_B, shown_B))
        self.replay.add(observation, shown_B, reward_B, done_B)
        for _ in range(self.experience.passed(self.settings.update_every)):
            if self.replay.ready:
                drawn = self.replay.draw(self.random)
                self.learn(drawn.observation, drawn.action_B, self.experience.steps)


class RecordingImitation(_Pupil):
    """Of a recording; a step is a decision that is shown."""

    def __init__(self, settings: ImitationSettings) -> None:
        super().__init__(settings)
        self.experience = Recording(settings)

    def parts(self) -> dict[str, Stateful]:
        return super().parts() | {"recording": self.experience}

    def advance(self) -> None:
        self.learn(*self.experience.draw(self.settings.batch, self.random), self.experience.steps)
