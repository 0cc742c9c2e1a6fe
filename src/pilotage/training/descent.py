"""One step down a loss."""

from __future__ import annotations

from itertools import chain

from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer


def descend(loss: Tensor, optimiser: Optimizer, gradient_norm: float = float("inf")) -> None:
    """Gradients of all weights of the optimiser together are cut to the given norm."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if gradient_norm < float("inf"):
        clip_grad_norm_(chain.from_iterable(group["params"] for group in optimiser.param_groups), gradient_norm)
    optimiser.step()
