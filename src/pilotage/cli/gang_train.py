"""`pilotage gang train`: a window controller that learns on the rows before a job's supersteps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.gang_compare import DataOption, job_of
from pilotage.cli.options import MAX_SEED, JsonOption, check_place, console, print_json, progress_bar, results

EXAMPLE = "Example: pilotage gang train examples/09_gang/job.yaml --generations 20 --out out/window"


def train(
    job: Annotated[Path | None, typer.Argument(metavar="[JOB.yaml]", help="The job file.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The checkpoint.")],
    data: DataOption = None,
    forecaster: Annotated[
        str | None, typer.Option("--forecaster", metavar="NAME", help="With --data: of the published job.")
    ] = None,
    generations: Annotated[int, typer.Option("--generations", min=1, max=100_000, help="At the most.")] = 80,
    mixtures: Annotated[
        int, typer.Option("--mixtures", min=1, max=100, help="Problems made by exchanging series between tasks.")
    ] = 6,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="LIST", help="Of trainings; of several, each gets a directory of its own.")
    ] = "0",
    as_json: JsonOption = False,
) -> None:
    """Learn when to divide the budget anew, on rows before the job's own supersteps, which are never seen.

    The result is a checkpoint for `gang compare --strategies learned:DIR`. Its gain over the plan is measured on the
    last quarter of the rows, which is not learned from.
    """
    from dataclasses import replace

    from pilotage.gang.training_ground import training_ground
    from pilotage.policies.checkpoints import write_checkpoint
    from pilotage.report.gang_tables import training_table
    from pilotage.sim.scenario import parse_seeds
    from pilotage.training.gang_windows import WindowTraining, checkpoint_of, train_windows

    check_place(out)
    wanted = parse_seeds(seeds)
    if max(wanted) > MAX_SEED:
        raise typer.BadParameter(f"at most {MAX_SEED}", param_hint="--seeds")
    loaded = job_of(job, data, forecaster)
    began = time.perf_counter()
    with console().status("forecasting and dividing training rows"):
        ground = training_ground(loaded, mixtures, 0)
    prepared = time.perf_counter() - began
    found = []
    settings = WindowTraining(generations=generations)
    for seed in wanted:
        own = replace(settings, seed=seed)
        began = time.perf_counter()
        with progress_bar(console(), f"generations of seed {seed}") as advance:
            learned = train_windows(ground, own, advance)
        place = out if len(wanted) == 1 else out / f"seed-{seed}"
        place.parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(place, checkpoint_of(learned, own, loaded.name, ground.fingerprint))
        gain = round(100 * learned.validation, 4)
        seconds = round(prepared + time.perf_counter() - began, 3)
        found.append({"seed": seed, "gain_percent": gain, "seconds": seconds, "checkpoint": str(place)})
    if as_json:
        print_json({"job": loaded.name, "trainings": found})
    else:
        results().print(training_table(found))
