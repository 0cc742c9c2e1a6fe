"""What a scorer is given, as tensors, and how scores become decisions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Observation(NamedTuple):
    """Decisions to score: the arguments of every scorer. The names carry the axes of one step; others may precede."""

    rows_BNI: Tensor  # inputs of node and pod, side by side
    mask_BN: Tensor  # candidates
    rack_BN: Tensor  # -1 = none
    zone_BN: Tensor

    def at(self, *index: Tensor | slice | int) -> Observation:
        return Observation(*(part[index] for part in self))

    def flat(self) -> Observation:
        """The first two axes as one."""
        return Observation(*(part.flatten(0, 1) for part in self))


def stacked(observations: list[Observation]) -> Observation:
    return Observation(*(torch.stack(parts) for parts in zip(*observations, strict=True)))


class Random:
    """The random numbers of a training: one stream, which can be saved."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def state_dict(self) -> dict[str, Tensor]:
        return {"state": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.generator.set_state(state["state"])


# Scorers give nodes that are no candidates a score far below all others, so no mask is needed here.


def best(scores_BN: Tensor) -> Tensor:
    """The node with the highest score; the first of equals, as every chooser of this project does."""
    return torch.from_numpy(scores_BN.detach().numpy().argmax(axis=-1))


def drawn(logits_BN: Tensor, random: Random) -> Tensor:
    """A node with the probability that its logit gives it."""
    return torch.multinomial(torch.softmax(logits_BN, dim=-1), 1, generator=random.generator)[:, 0]


def uniform(mask_BN: Tensor, random: Random) -> Tensor:
    """Any candidate."""
    return torch.multinomial(mask_BN.float(), 1, generator=random.generator)[:, 0]
