"""The newest decisions of all clusters, to learn from again and again."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pilotage.model.errors import InputError
from pilotage.training.observation import Observation, Random


class Transitions(NamedTuple):
    """Decisions with what came of them. `after` is of no meaning where the episode ended."""

    observation: Observation
    action_B: Tensor
    reward_B: Tensor
    done_B: Tensor
    after: Observation


class Replay:
    """A ring over time, T rows of B clusters: what follows a decision is the next row, so nothing is stored twice."""

    def __init__(self, decisions: int, batch: int, like: Observation) -> None:
        B = len(like.mask_BN)
        T = max(2, -(-decisions // B))
        if batch > (T - 1) * B:
            problem = f"{decisions} decisions are too few for batches of {batch}"
            wanted = f"at least {B * (1 + -(-batch // B))}, or a smaller --batch"
            raise InputError(problem, field="--buffer", expected=wanted)
        self.batch = batch
        self.observation_TB = Observation(*(torch.zeros((T, *part.shape), dtype=part.dtype) for part in like))
        self.action_TB = torch.zeros((T, B), dtype=torch.int64)
        self.reward_TB = torch.zeros((T, B))
        self.done_TB = torch.zeros((T, B), dtype=torch.bool)
        self.added = 0  # rows since the beginning

    def add(self, observation: Observation, action_B: Tensor, reward_B: Tensor, done_B: Tensor) -> None:
        t = self.added % len(self.action_TB)
        for stored_TB, part in zip(self.observation_TB, observation, strict=True):
            stored_TB[t] = part
        self.action_TB[t], self.reward_TB[t], self.done_TB[t] = action_B, reward_B, done_B
        self.added += 1

    def __len__(self) -> int:
        """Decisions that can be drawn: the newest of each cluster has no next one yet."""
        return max(0, min(self.added, len(self.action_TB)) - 1) * self.action_TB.shape[1]

    @property
    def ready(self) -> bool:
        """There is a batch to draw."""
        return len(self) >= self.batch

    def draw(self, random: Random) -> Transitions:
        """A batch of them, each with the same chance."""
        T, B = self.action_TB.shape
        chosen = torch.randint(len(self), (self.batch,), generator=random.generator)
        oldest = max(0, self.added - T)
        t, b = (oldest + chosen // B) % T, chosen % B
        return Transitions(
            observation=self.observation_TB.at(t, b),
            action_B=self.action_TB[t, b],
            reward_B=self.reward_TB[t, b],
            done_B=self.done_TB[t, b],
            after=self.observation_TB.at((t + 1) % T, b),
        )

    def state_dict(self) -> dict[str, object]:
        decided = {"action": self.action_TB, "reward": self.reward_TB, "done": self.done_TB}
        return decided | {"observation": self.observation_TB._asdict(), "added": self.added}

    def load_state_dict(self, state: dict[str, object]) -> None:
        stored = {"action": self.action_TB, "reward": self.reward_TB, "done": self.done_TB}
        stored |= {f"observation/{name}": part for name, part in self.observation_TB._asdict().items()}
        for name, tensor in stored.items():
            found: object = state
            for key in name.split("/"):
                found = found[key]  # type: ignore[index]
            tensor.copy_(found)  # type: ignore[arg-type]
        self.added = int(state["added"])  # type: ignore[call-overload]
