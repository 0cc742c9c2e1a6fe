"""Writes a policy of leftover prices without one of its parts, each as a checkpoint of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pilotage.policies import checkpoints
from pilotage.policies.leftover_prices import FUNCTIONS

LEFTOVER = ("leftover", "shared_leftover")  # one number per function of what is left on a device
PARTS = {
    "leftover": LEFTOVER,
    "cpu": ("cpu", "scarce_cpu", "cpu_share"),
    "memory": ("memory", "scarce_memory", "memory_share"),
    "idle": ("idle", "multi_idle", "multi_whole"),
    "linear": ("weights", "scarce_weights"),
    "small-pods": ("small_pods", "scarce_small_pods"),
    "model": ("model",),
    "scarcity": ("scarce_weights", "scarce_cpu", "scarce_memory", "scarce_small_pods"),
    "mix-of-kinds": ("multi_idle", "multi_whole", "shared_leftover"),
}
PACKING_PRICES = [k for k, name in enumerate(FUNCTIONS) if name.startswith("packing_price")]


def write_variants(policy: Path, out: Path) -> None:
    full = checkpoints.read_checkpoint(policy)
    stem = full.name.rpartition("@")[0]

    def write(part: str, changed: dict[str, np.ndarray]) -> None:
        name = f"{stem}-without-{part}@1"
        variant = replace(full, name=name, summary=f"{full.name} without {part}", tensors={**full.tensors, **changed})
        checkpoints.write_checkpoint(out / part, variant)

    for part, names in PARTS.items():
        write(part, {name: np.zeros_like(full.tensors[name]) for name in names if name in full.tensors})
    priceless = {name: np.array(full.tensors[name]) for name in LEFTOVER if name in full.tensors}
    for vector in priceless.values():
        vector[PACKING_PRICES] = 0.0
    write("packing-price", priceless)


if __name__ == "__main__":
    write_variants(Path(sys.argv[1]), Path(sys.argv[2]))
