"""Writes a policy of leftover prices without one of its parts, each as a checkpoint of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pilotage.kernels.prices import FIGURES, USABLE
from pilotage.policies import checkpoints
from pilotage.policies.leftover_prices import FUNCTIONS
from pilotage.policies.priced import ABOUT_CPU, LAYOUT

LEFTOVER = ("leftover", "shared_leftover")  # one number per function of what is left on a device
PARTS = {
    "leftover": LEFTOVER,
    "cpu": ("cpu", "served_by_cpu", "scarce_cpu", "scarce_served", "only_cpu"),
    "memory": ("memory", "served_by_memory", "scarce_memory", "tight_memory", "tight_served"),
    "idle": ("idle", "several", "multi_idle", "multi_several", "crowded_several", "multi_whole"),
    "linear": ("weights", "scarce_weights", "only_weights", "tight_weights"),
    "pods-that-fit": tuple(f"{how}{what}_pods" for how in ("", "scarce_", "only_") for what in ("small", "gpu")),
    "model": ("model",),
    "scarcity": tuple(name for name in LAYOUT if name.startswith(("scarce_", "tight_", "only_"))),
    "mix-of-kinds": tuple(name for name in LAYOUT if name.startswith(("multi_", "crowded_", "shared_"))),
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
        write(part, {name: np.zeros_like(full.tensors[name]) for name in names})
    priceless = {name: np.array(full.tensors[name]) for name in LEFTOVER}
    for vector in priceless.values():
        vector[PACKING_PRICES] = 0.0
    write("packing-price", priceless)
    columns = {"weights": (len(FIGURES), USABLE)}
    columns |= {name: (len(ABOUT_CPU), ABOUT_CPU.index(USABLE)) for name in ("scarce_weights", "only_weights")}
    blind = {name: np.array(full.tensors[name]) for name in columns}
    for name, (width, column) in columns.items():
        blind[name].reshape(-1, width)[:, column] = 0.0
    write("fragmentation", blind)


if __name__ == "__main__":
    write_variants(Path(sys.argv[1]), Path(sys.argv[2]))
