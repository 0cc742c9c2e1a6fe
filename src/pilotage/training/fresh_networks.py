"""Networks with their first weights, which the seed decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from pilotage.model.errors import InputError
from pilotage.policies.architectures import INPUTS
from pilotage.training.networks import Critic, GraphCritic, GraphScorer, Scorer
from pilotage.training.settings import TrainingSettings

Module = TypeVar("Module", bound=torch.nn.Module)


def fresh_scorer(settings: TrainingSettings) -> Scorer | GraphScorer:
    hidden, depth = settings.hidden, settings.depth
    if settings.network == "mlp":
        return _seeded(settings.seed, lambda: Scorer(INPUTS, hidden, depth))
    return _seeded(settings.seed, lambda: GraphScorer(INPUTS, hidden, depth, _heads(settings)))


def fresh_critic(settings: TrainingSettings) -> Critic | GraphCritic:
    hidden, depth, seed = settings.hidden, settings.depth, settings.seed + 1
    if settings.network == "mlp":
        return _seeded(seed, lambda: Critic(INPUTS, hidden, depth))
    return _seeded(seed, lambda: GraphCritic(INPUTS, hidden, depth, _heads(settings)))


def _heads(settings: TrainingSettings) -> int:
    if settings.hidden % settings.heads:
        problem = f"{settings.heads} heads do not share a width of {settings.hidden} evenly"
        raise InputError(problem, field="--heads", expected="a divisor of --hidden")
    return settings.heads


def _seeded(seed: int, make: Callable[[], Module]) -> Module:
    """Without a trace in torch's own random numbers: nothing else in the process is to depend on it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
