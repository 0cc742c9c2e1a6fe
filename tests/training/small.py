"""Trainings that take a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pilotage.training.loop import train
from pilotage.training.run_directory import RunDirectory
from pilotage.training.settings import TrainingSettings, settings_from

torch.set_num_threads(1)  # tests run side by side

SMALL: dict[str, Any] = {
    "nodes": "3-5",
    "pods_per_node": 6.0,
    "copies": 8,
    "hidden": 8,
    "steps": 512,
    "evaluate_every": 128,
    "validation_episodes": 4,
}
OF_AGENT: dict[str, dict[str, Any]] = {
    "mlp": {"batch": 16, "update_every": 16, "buffer": 256},
    "dqn": {"batch": 16, "update_every": 16, "buffer": 256, "target_update_every": 100},
    "gnn-dqn": {"batch": 16, "update_every": 32, "buffer": 256, "target_update_every": 100},
    "ac-mlp": {"rollout": 2},
    "ac-gnn": {"rollout": 4},
    "ppo": {"rollout": 8, "batch": 32, "epochs": 2},
    "imitation": {"batch": 16, "update_every": 16, "buffer": 256},
}


def small_settings(agent: str, **changes: Any) -> TrainingSettings:
    return settings_from(agent, SMALL | OF_AGENT[agent] | changes)


def small_run(directory: Path, agent: str, **changes: Any) -> RunDirectory:
    """Trained to its end."""
    run = RunDirectory.fresh(directory, "small", agent, small_settings(agent, **changes))
    train(run, lambda update: None)
    return run
