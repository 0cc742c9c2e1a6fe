"""Writes into a checkpoint which lists it was made for, and its share of the room on them, on validation seeds."""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from pilotage.policies.checkpoints import read_checkpoint, write_checkpoint
from pilotage.policies.learned import policy_of
from pilotage.sim.seeds import VALIDATION
from pilotage.sim.specs import TraceSource
from pilotage.training.fitness import share_of_room
from pilotage.training.trials import Trial, figures_of, yardstick

LOAD = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--pods", type=Path, action="append", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()

    found = read_checkpoint(asked.checkpoint)
    policy, seeds = policy_of(found), tuple(islice(VALIDATION, asked.seeds))
    scores: dict[str, float] = {}
    digests: list[str] = []
    for pods in asked.pods:
        source = TraceSource(asked.nodes, pods)
        trace, limits = source.load(), yardstick(source, seeds, LOAD)
        digests.append(trace.digest)
        baseline = [Trial(source, seed, LOAD, limits.forced_load, "fgd").carry_out() for seed in seeds]
        own = [figures_of(trace, policy, seed, LOAD, limits.forced_load) for seed in seeds]
        shares = [share_of_room(*pair, limits) for pair in zip(own, baseline, strict=True)]
        scores[trace.name] = round(float(np.mean(shares)), 4)
        failed = [np.mean([one.failed_cpu for one in runs]) for runs in (own, baseline)]
        sys.stderr.write(
            f"{trace.name}: {scores[trace.name]:.3f} of the room, failed CPU-only {failed[0]}/{failed[1]}\n"
        )
    scores["validation"] = round(float(np.mean([*scores.values()])), 4)
    used = {**found.origin.seeds, "validation": [seeds[0], seeds[-1]]}
    data = hashlib.sha256("".join(digests).encode()).hexdigest()
    origin = replace(found.origin, scores=scores, data_hash=data, seeds=used)
    write_checkpoint(asked.checkpoint, replace(found, origin=origin))


if __name__ == "__main__":
    main()
