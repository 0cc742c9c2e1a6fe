"""Adds valuations that have practised for long: on each given list, from the one that fills it best.

Practice (`policies/practice.py`) draws pods from the mix of a list, not from its runs: no seed of a run is used.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pilotage.model.cluster import ClusterState
from pilotage.policies.checkpoints import read_checkpoint, write_checkpoint
from pilotage.policies.practice import practised
from pilotage.policies.priced import LAYOUT, Priced, parts_of
from pilotage.policies.rehearsal import Rehearsal, race
from pilotage.sim.protocols import mix_of
from pilotage.sim.specs import TraceSource

ORDERS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="checkpoint to write")
    parser.add_argument("start", type=Path, help="checkpoint with valuations")
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--pods", type=Path, action="append", default=[])
    parser.add_argument("--runs", type=int, default=3000)
    asked = parser.parse_args()

    read = read_checkpoint(asked.start)
    rows = np.concatenate([read.tensors[name] for name in LAYOUT], axis=1)
    known = [Priced("valuation@1", row) for row in rows]
    for pods in asked.pods:
        trace = TraceSource(asked.nodes, pods).load()
        rehearsal = Rehearsal(mix_of(trace).on(ClusterState(trace.nodes)))
        chosen, _ = race(known, rehearsal)
        found, value = practised(known[chosen], known, rehearsal, asked.runs, ORDERS)
        known.append(found)
        sys.stderr.write(f"{trace.name}: from valuation {chosen + 1}, {value:+.3f} points beside FGD\n")
    parts = [parts_of(policy.parameters) for policy in known]
    tensors = {name: np.array([part[name] for part in parts]) for name in LAYOUT}
    training = {**read.origin.training, "practised": [pods.stem for pods in asked.pods], "runs": asked.runs}
    architecture = replace(read.architecture, valuations=len(known))
    origin = replace(read.origin, training=training)
    write_checkpoint(asked.out, replace(read, architecture=architecture, tensors=tensors, origin=origin))


if __name__ == "__main__":
    main()
