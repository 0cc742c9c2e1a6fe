"""From training settings to environments: what is played, and with which seeds."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np

from pilotage.envs.reference import Chooser, policy_choice
from pilotage.envs.settings import EnvSettings, parse_nodes
from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.sim.seeds import TRAINING, VALIDATION
from pilotage.training.settings import TrainingSettings

# Sizes and pods that a scorer learns most from; the environments' own defaults are single sizes.
VARIED: Final[dict[str, dict[str, Any]]] = {
    "balance": {"nodes": (3, 16), "workload": "mixed"},
    "load": {"nodes": (3, 16)},
    "packing": {"nodes": (8, 24)},
}
EPISODES = 100_000  # different ones of a training; then they come again


def environment_of(settings: TrainingSettings) -> EnvSettings:
    changes = dict(VARIED.get(settings.env, {}))
    if settings.nodes:
        changes["nodes"] = parse_nodes(settings.nodes)
    if settings.pods_per_node:
        changes["pods_per_node"] = settings.pods_per_node
    if settings.workload:
        changes["workload"] = settings.workload
    if settings.objectives:
        changes["objectives"] = _weights(settings.objectives)
    return EnvSettings.of(settings.env, **changes, node_changes=settings.node_changes)


def policy_by_name(name: str, settings: TrainingSettings) -> Chooser:
    """How a policy would play; it is prepared for the pods of the environment."""
    return policy_choice(find_policy(name), environment_of(settings))


def first_training_seed(seed: int) -> int:
    """Trainings with different seeds play different episodes, all of them in the range of training seeds."""
    last = TRAINING.stop - EPISODES
    return int(np.random.default_rng(seed).integers(TRAINING.start, last))


def seeds_used(settings: TrainingSettings) -> dict[str, object]:
    """For the record: first and last seed by use."""
    start = first_training_seed(settings.seed)
    validation = [VALIDATION.start, VALIDATION.start + settings.validation_episodes - 1]
    return {"training": [start, start + EPISODES - 1], "validation": validation, "settings": settings.seed}


def environment_hash(settings: TrainingSettings) -> str:
    """Stands for the workload: everything that decides what can come up."""
    environment = environment_of(settings)
    parts = {name: value for name, value in vars(environment).items() if name != "objectives"}
    text = f"{sorted(parts.items())} {sorted(environment.objectives.items())}"
    return hashlib.sha256(text.encode()).hexdigest()


def _weights(text: str) -> dict[str, float]:
    weights = {}
    for term in text.split(","):
        name, equals, number = term.partition("=")
        try:
            weights[name.strip()] = float(number) if equals else 1.0
        except ValueError:
            raise InputError(f"cannot read {term!r}", field="--objectives", expected="as balance=1,load=2") from None
    return weights
