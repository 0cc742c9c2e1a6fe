"""Checkpoints of policies that learned nothing: random weights, made without torch."""

from __future__ import annotations

import numpy as np

from pilotage.policies.architectures import DTYPES, Architecture
from pilotage.policies.checkpoints import Checkpoint, Origin

PRICES, LINEAR = Architecture("prices", valuations=1), Architecture("mlp", hidden=1, depth=0)
MLP, GRAPH = Architecture("mlp", hidden=16, depth=2), Architecture("graph", hidden=12, depth=2, heads=3)
KINDS = (PRICES, LINEAR, MLP, GRAPH)


def random_checkpoint(architecture: Architecture, seed: int = 0, name: str = "") -> Checkpoint:
    """The same weights for the same seed."""
    draw = np.random.default_rng(seed)
    tensors = {
        key: draw.normal(0.0, 0.4, shape).astype(DTYPES[architecture.kind])
        for key, shape in architecture.shapes.items()
    }
    origin = Origin({"agent": "none", "steps": 0}, {"training": [10_000, 10_004]}, "0" * 64, {"validation": -1.5})
    return Checkpoint(name or f"random-{architecture.kind}@1", architecture, tensors, "nothing in particular", origin)
