"""Writes what the shipped policy is on a list, without one of its parts, each as a checkpoint of its own.

The parts are taken from what was found for the list, after rehearsal and practice, and nothing is found anew: practice
would make up for some of what is missing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from pilotage.model.cluster import ClusterState
from pilotage.model.workload import FloatArray
from pilotage.policies.architectures import Architecture
from pilotage.policies.checkpoints import Checkpoint, write_checkpoint
from pilotage.policies.leftover_prices import FUNCTIONS
from pilotage.policies.practice import practised, usual_orders, usual_runs
from pilotage.policies.priced import LAYOUT, parts_of
from pilotage.policies.registry import find_policy
from pilotage.policies.rehearsal import Rehearsal, race
from pilotage.policies.rehearsed import Rehearsed
from pilotage.sim.protocols import mix_of
from pilotage.sim.specs import TraceSource

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


def variants(policy: Rehearsed, rehearsal: Rehearsal) -> dict[str, FloatArray]:
    """Parameters by what is missing."""
    chosen, _ = race(policy.valuations, rehearsal)
    start = policy.valuations[chosen]
    whole, _ = practised(start, policy.valuations, rehearsal, usual_runs(rehearsal), usual_orders(rehearsal))
    found = {
        "nothing": whole.parameters,
        "practice": start.parameters,
        "rehearsal and practice": policy.valuations[0].parameters,
    }
    for part, names in PARTS.items():
        found[part] = without(whole.parameters, names)
    found["packing-price"] = without(whole.parameters, LEFTOVER, PACKING_PRICES)
    return found


def without(parameters: FloatArray, names: tuple[str, ...], places: list[int] | None = None) -> FloatArray:
    parts = parts_of(parameters.copy())
    for name in names:
        parts[name][slice(None) if places is None else places] = 0.0
    return np.concatenate([*parts.values()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--pods", type=Path)
    asked = parser.parse_args()
    policy, trace = find_policy("pilotage-pack"), TraceSource(asked.nodes, asked.pods).load()
    if not isinstance(policy, Rehearsed):
        sys.exit("pilotage-pack has one valuation: there is nothing to rehearse")
    found = variants(policy, Rehearsal(mix_of(trace).on(ClusterState(trace.nodes))))
    for number, (missing, parameters) in enumerate(found.items()):
        tensors = {name: part[None] for name, part in parts_of(parameters).items()}
        name = f"without-{missing.replace(' ', '-')}@1"
        variant = Checkpoint(name, Architecture("prices", valuations=1), tensors, f"pilotage-pack without {missing}")
        write_checkpoint(asked.out / f"{number:02}", variant)


if __name__ == "__main__":
    main()
