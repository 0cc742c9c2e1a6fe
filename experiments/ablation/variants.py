"""Writes a policy of leftover prices without one of its parts, each as a checkpoint of its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pilotage.policies import checkpoints
from pilotage.policies.leftover_prices import FUNCTIONS
from pilotage.policies.priced import LAYOUT

LEFTOVER = ("leftover", "shared_leftover")  # one number per function of what is left on a device
PARTS = {
    "leftover": LEFTOVER,
    "cpu": ("cpu", "served_by_cpu", "scarce_cpu", "scarce_served", "only_cpu"),
    "memory": ("memory", "served_by_memory", "scarce_memory", "tight_memory", "tight_served"),
    "idle": tuple(name for name in LAYOUT if "idle" in name or "several" in name or name == "multi_whole"),
    "linear": ("weights", "scarce_weights", "very_scarce_weights", "only_weights", "bulky_weights", "tight_weights"),
    "pods-that-fit": tuple(name for name in LAYOUT if name.endswith(("small_pods", "gpu_pods"))),
    "chunks-of-cpu": tuple(name for name in LAYOUT if name.endswith("cpu_chunks")),
    "model": ("model",),
    "scarcity": tuple(name for name in LAYOUT if name.startswith(("scarce_", "very_", "tight_", "only_"))),
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
        vector[:, PACKING_PRICES] = 0.0
    write("packing-price", priceless)
    usual = {name: tensor[:1] for name, tensor in full.tensors.items()}
    alone = replace(full, name=f"{stem}-without-rehearsal@1", summary=f"{full.name}, its first valuation alone")
    one = replace(alone, architecture=replace(full.architecture, valuations=1), tensors=usual)
    checkpoints.write_checkpoint(out / "rehearsal", one)


if __name__ == "__main__":
    write_variants(Path(sys.argv[1]), Path(sys.argv[2]))
