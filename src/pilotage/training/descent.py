"""Steps down a loss, smaller and smaller."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam

from pilotage.model.errors import InputError
from pilotage.training.settings import TrainingSettings


class Descent:
    """Adam. Its rate falls in a straight line over the training: large steps find the way, small ones end the noise."""

    def __init__(self, network: nn.Module, rate: float, settings: TrainingSettings, norm: float | None = None) -> None:
        self.network, self.rate, self.norm = network, rate, norm  # gradients are cut to this norm
        self.steps_in_all, self.last_part = settings.steps, settings.final_learning_rate
        self.optimiser = Adam(network.parameters(), lr=rate)

    def rate_at(self, steps: int) -> float:
        done = min(1.0, steps / self.steps_in_all)
        return self.rate * (1.0 + (self.last_part - 1.0) * done)

    def step(self, loss: Tensor, steps: int) -> None:
        """`steps` is how far the training is. A loss that is no number would make all weights the same."""
        if not torch.isfinite(loss):
            problem = f"the training diverged: a loss is {loss.item():g} at step {steps}"
            raise InputError(problem, expected="a smaller --learning-rate, or smaller weights of --objectives")
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.norm is not None:
            clip_grad_norm_(self.network.parameters(), self.norm)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate_at(steps)
        self.optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        return self.optimiser.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state)
