"""Steps down a loss, smaller and smaller."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam

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
        """`steps` is how far the training is."""
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
