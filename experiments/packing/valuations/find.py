"""Finds valuations that together serve many workloads: random steps from some starts, then a greedy choice.

What counts is not how good a valuation is on the mean, but how much it adds: on each workload the policy takes the best
of its valuations (`policies/rehearsal.py`), so one that is bad on most workloads and good where all others fail is
worth having. The seeds of the trials are training seeds; generated workloads are drawn by training seeds too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from pilotage.model.workload import FloatArray
from pilotage.policies.architectures import Architecture
from pilotage.policies.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from pilotage.policies.practice import usual_steps
from pilotage.policies.priced import LAYOUT, parts_of
from pilotage.policies.refusals import L0_OF_BASELINE, cost_of
from pilotage.sim.seeds import TRAINING
from pilotage.sim.specs import TraceSource
from pilotage.training.trials import Figures, Trial
from pilotage.training.workers import LocalWorkers

LOAD = 1.3
STEPPED = 0.25  # the share of parameters that a candidate changes
MOST = 3.0  # percent of capacity: one workload is not to outweigh the others
WEIGHT_OF_GIVEN = 2.0
FIRST_SEED, FIRST_WORKLOAD = 50_000, 60_000  # places in the training seeds that no evolution has come to


def candidates(
    starts: Sequence[FloatArray], count: int, size_of_steps: float, random: np.random.Generator
) -> list[FloatArray]:
    scale = size_of_steps * usual_steps()
    found = [*starts]
    while len(found) < count:
        stepped = random.random(len(scale)) < STEPPED
        found.append(starts[len(found) % len(starts)] + random.normal(size=len(scale)) * scale * stepped)
    return found


def trials(source: TraceSource, seeds: Sequence[int], forced_load: float, parameters: FloatArray | None) -> list[Trial]:
    name, vector = ("fgd", ()) if parameters is None else ("candidate@1", tuple(parameters.tolist()))
    return [Trial(source, seed, LOAD, forced_load, name, vector) for seed in seeds]


def values(
    workers: LocalWorkers, source: TraceSource, seeds: Sequence[int], tried: Sequence[FloatArray], cost: float
) -> list[float]:
    """Of every candidate on one workload: percent of capacity more than FGD allocates, less what refusals cost."""
    reached = workers.figures([trials(source, seeds, 0.0, None)])[0]
    forced_load = L0_OF_BASELINE * float(np.mean([figures.allocation for figures in reached])) / 100
    tasks = [trials(source, seeds, forced_load, parameters) for parameters in (None, *tried)]
    baseline, *found = workers.figures(tasks)
    return [float(np.mean([_value(*pair, cost) for pair in zip(own, baseline, strict=True)])) for own in found]


def _value(own: Figures, baseline: Figures, cost: float) -> float:
    gain = own.allocation - baseline.allocation - cost_of(own, baseline, cost)
    return min(max(gain, -MOST), MOST)


def tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def greedy(value_WC: FloatArray, weight_W: FloatArray, keep: int) -> list[int]:
    """First the best of all on the mean, then each time the one that adds most to the best so far."""
    chosen: list[int] = []
    best_W = np.full(len(value_WC), -MOST)
    while len(chosen) < keep:
        reached_C = weight_W @ np.maximum(value_WC, best_W[:, None])
        added = int(np.argmax(reached_C))
        if added in chosen:
            break
        chosen.append(added)
        best_W = np.maximum(best_W, value_WC[:, added])
        tell(f"{len(chosen)}: candidate {added}, {weight_W @ best_W / weight_W.sum():.3f} on the mean")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="checkpoint to write")
    parser.add_argument("start", type=Path, nargs="+", help="checkpoints whose valuations are the starts")
    parser.add_argument("--name", default="pilotage-pack@1")
    parser.add_argument("--nodes", type=Path)
    parser.add_argument("--pods", type=Path, action="append", default=[])
    parser.add_argument("--candidates", type=int, default=66)
    parser.add_argument("--steps", type=float, default=1.0, help="times the usual ones")
    parser.add_argument("--keep", type=int, default=12)
    parser.add_argument("--varied", type=int, default=60)
    parser.add_argument("--runs", type=int, default=2, help="of each given list; generated workloads have one")
    parser.add_argument("--cost", type=float, default=2.0, help="of twice as many failed pods as FGD has, in points")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()

    read = [read_checkpoint(path) for path in asked.start]
    starts = [row for one in read for row in np.concatenate([one.tensors[name] for name in LAYOUT], axis=1)]
    tried = candidates(starts, asked.candidates, asked.steps, np.random.Generator(np.random.PCG64(asked.seed)))
    given = [TraceSource(asked.nodes, pods) for pods in asked.pods]
    varied = [TraceSource(name=f"varied-{n}") for n in islice(TRAINING, FIRST_WORKLOAD, FIRST_WORKLOAD + asked.varied)]
    seeds = list(islice(TRAINING, FIRST_SEED, FIRST_SEED + asked.runs))
    rows: list[list[float]] = []
    with LocalWorkers(os.cpu_count() or 1) as workers:
        for source in (*given, *varied):
            rows.append(values(workers, source, seeds if source in given else seeds[:1], tried, asked.cost))
            tell(f"{source.load().name}: start {rows[-1][0]:+.2f}, best {max(rows[-1]):+.2f}")
    weight_W = np.array([WEIGHT_OF_GIVEN] * len(given) + [1.0] * len(varied))
    chosen = greedy(np.array(rows), weight_W, asked.keep)
    parts = [parts_of(tried[c]) for c in chosen]
    tensors = {name: np.array([part[name] for part in parts]) for name in LAYOUT}
    training = {
        "script": "experiments/packing/valuations/find.py",
        "starts": [one.name for one in read],
        "candidates": asked.candidates,
        "steps": asked.steps,
        "cost": asked.cost,
        "varied": asked.varied,
        "given": [source.load().name for source in given],
        "seed": asked.seed,
        "of_first": dict(read[0].origin.training),
    }
    origin = replace(read[0].origin, training=training, seeds={"training": [seeds[0], seeds[-1]]}, scores={})
    architecture = Architecture("prices", valuations=len(chosen))
    summary = (
        "least loss of the learned value of what is left; of several valuations, the best in a rehearsal of the mix"
    )
    write_checkpoint(asked.out, Checkpoint(asked.name, architecture, tensors, summary, origin))


if __name__ == "__main__":
    main()
