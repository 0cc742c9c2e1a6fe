"""A policy that has learned in Load-v1, in some seconds."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `pilotage train mlp --env load --steps 16000 --hidden 16 --seed 1` makes it, with these settings."""
    from pilotage.training.loop import train
    from pilotage.training.run_directory import RunDirectory
    from pilotage.training.settings import settings_from

    settings = {"env": "load", "nodes": "3-6", "hidden": 16, "steps": 16_000, "evaluate_every": 4_000, "seed": 1}
    run = RunDirectory.fresh(tmp_path_factory.mktemp("load"), "learned-load", "mlp", settings_from("mlp", settings))
    train(run, lambda update: None)
    return run.path / "best"
