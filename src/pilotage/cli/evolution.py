"""`pilotage train evolution`: tune the shipped policy to one's own traces, or train it from nothing."""

from __future__ import annotations

import os
import time
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.options import (
    AddressOption,
    EngineOption,
    JobsOption,
    JsonOption,
    ManyPodsOption,
    ManyTracesOption,
    NodesOption,
    check_place,
    console,
    engine_of,
    expect_alone,
    print_json,
    results,
    training_progress,
)
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.sim.specs import TraceSource
    from pilotage.training.evolution import EvolutionSettings, Generation
    from pilotage.training.evolution_directory import EvolutionDirectory
    from pilotage.training.evolving import Outcome
    from pilotage.training.strategies import Method
    from pilotage.training.trials import Objective
    from pilotage.training.workers import Workers

EXAMPLE = "Example: pilotage train evolution --nodes nodes.csv --pods pods.csv --minutes 20 --name my-pack"
OUT = Path("out") / "train"
SPREADS: dict[str, float] = {"slope": 0.3, "coordinates": 0.05, "cma": 0.02}
POPULATIONS = {"slope": 512, "coordinates": 24, "cma": 24}
SEEDS = {
    "slope": 16,
    "coordinates": 8,
    "cma": 8,
}  # of all given traces in a generation: noise is larger than a step's gain
SHIPPED = {"packing": "pilotage-pack", "balance": "pilotage-balance"}


def evolution(
    ctx: typer.Context,
    *,
    nodes: NodesOption = None,
    pods: ManyPodsOption = None,
    trace: ManyTracesOption = None,
    objective: Annotated[
        Literal["packing", "balance"], typer.Option("--objective", help="Close the packing room, or even out use.")
    ] = "packing",
    start: Annotated[
        str | None,
        typer.Option("--start", help="prior, a shipped policy or a checkpoint.  [default: the shipped one]"),
    ] = None,
    generations: Annotated[int, typer.Option("--generations", min=1, max=9_999, help="At most so many.")] = 300,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.01, help="Stop after this time; --resume goes on.")
    ] = None,
    method: Annotated[
        Literal["slope", "coordinates", "cma"] | None,
        typer.Option("--method", help="How to search.  [default: slope; coordinates for balance and from nothing]"),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option("--population", min=5, max=1000, help="Candidates tried at once.  [default: 512, or 24]"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option("--spread", min=1e-6, max=10, help="First step.  [default: 0.3; coordinates 0.05, cma 0.02]"),
    ] = None,
    load: Annotated[float, typer.Option("--load", min=0.0, help="Arriving GPU / capacity; 0 = as it is.")] = 1.3,
    given: Annotated[int, typer.Option("--given", min=1, help="Given traces in a generation; the first always.")] = 5,
    varied: Annotated[int, typer.Option("--varied", min=0, help="Generated workloads to draw from, for breadth.")] = 0,
    runs: Annotated[
        int | None,
        typer.Option("--runs", min=1, max=100, help="Seeds of each given trace in a generation.  [default: 2 to 16]"),
    ] = None,
    breadth: Annotated[int, typer.Option("--breadth", min=0, help="Of those, so many in a generation.")] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, max=88, help="Of the search; decides everything.")] = 0,
    jobs: JobsOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where directories of runs are.")] = OUT,
    name: Annotated[str | None, typer.Option("--name", help="Of the run: its directory and its policy.")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Go on with this run and its settings.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune the shipped policy to your traces, or train it from nothing (--start prior).

    Candidates are tried on training seeds, the best is chosen on validation seeds; test it with pilotage evaluate.
    """
    if util.find_spec("cma") is None:
        raise InputError("evolution needs cma", expected="pip install 'pilotage[train]'")
    from pilotage.sim.scenario import distinct_traces, sources_of
    from pilotage.training.evolution import EvolutionSettings
    from pilotage.training.evolution_directory import EvolutionDirectory

    if resume is not None:
        expect_alone(ctx, "resume", "minutes", "jobs", "engine", "address", "as_json")
        run = EvolutionDirectory.existing(resume)
    else:
        check_place(out)
        sources = distinct_traces(sources_of(nodes, pods, trace) or ())
        method = method or _usual_method(objective, start)
        usual = max(2, SEEDS[method] // max(1, len(sources)))
        settings = EvolutionSettings(
            objective=objective,
            generations=generations,
            population=population or POPULATIONS[method],
            method=method,
            spread=spread or SPREADS[method],
            load=load,
            given=given,
            varied=breadth if varied else 0,
            seeds=runs or usual,
            validation_seeds=max(3, usual),
            seed=seed,
        )
        run = _fresh(out, name, start or SHIPPED[objective], settings, sources, varied)
    outcome = _evolve(run, _workers(engine, address, jobs), minutes)
    _print(run, outcome, as_json)


def _usual_method(objective: Objective, start: str | None) -> Method:
    """A slope leads on from what is good already; it was not tried for anything else."""
    return "slope" if objective == "packing" and start != "prior" else "coordinates"


def _fresh(
    out: Path,
    name: str | None,
    start: str,
    settings: EvolutionSettings,
    sources: tuple[TraceSource, ...],
    varied: int,
) -> EvolutionDirectory:
    from pilotage.training.evolution_directory import EvolutionDirectory
    from pilotage.training.evolution_start import prepared_workloads, start_parameters, start_steps
    from pilotage.training.run_directory import free_directory

    path = free_directory(out, name, "evolution", settings.seed)
    parameters = start_parameters(start, settings.objective, sources)
    workloads, wanted = None, len(sources) + varied
    with console().status("baseline and bound of each workload") as status:
        for workloads in prepared_workloads(sources, varied, settings):
            status.update(f"baseline and bound of each workload: {len(workloads.yardsticks)} of {wanted}")
    if workloads is None:
        raise InputError("no workload to train on", expected="--nodes and --pods, --trace, or --varied")
    with console().status("steps of the parameters"):
        steps = start_steps(parameters, workloads, settings)
    run = EvolutionDirectory(path, f"{path.name}@1", settings, workloads, parameters, steps)
    run.create()
    return run


def _workers(engine: str, address: str | None, jobs: int | None) -> Workers:
    from pilotage.sim.ray_engine import RayEngine
    from pilotage.training.workers import LocalWorkers, RayWorkers

    chosen = engine_of(engine, address, jobs)
    return RayWorkers(chosen) if isinstance(chosen, RayEngine) else LocalWorkers(jobs or os.cpu_count() or 1)


def _evolve(run: EvolutionDirectory, workers: Workers, minutes: float | None) -> Outcome:
    from pilotage.training.evolving import evolve

    screen, ends = console(), time.monotonic() + 60 * (minutes or float("inf"))
    screen.print(f"evolution in {run.path}", soft_wrap=True)
    with workers, training_progress() as tell:
        validations: list[float] = []

        def watch(generation: Generation) -> None:
            if generation.validation is not None:
                validations.append(generation.validation)
            if validations:
                tell(generation.number, run.settings.generations, validations[-1], max(validations))

        try:
            return evolve(run, workers, watch, lambda: time.monotonic() > ends)
        except KeyboardInterrupt:
            screen.print(f"stopped; to go on: pilotage train evolution --resume {run.path}", soft_wrap=True)
            raise typer.Exit(130) from None


def _print(run: EvolutionDirectory, outcome: Outcome, as_json: bool) -> None:
    names = [source.load().name for source in run.workloads.given]
    shares = dict(zip(names, zip(outcome.start.shares, outcome.best.shares, strict=True), strict=True))
    if as_json:
        print_json(
            {
                "policy": str(run.path / "best"),
                "generations": outcome.generations,
                "best_generation": outcome.best.number,
                "validation": outcome.validation,
                "room_closed_percent": {n: {"start": 100 * a, "best": 100 * b} for n, (a, b) in shares.items()},
            }
        )
        return
    from rich.table import Table

    if run.settings.objective == "packing" and shares:
        title = f"Share of the packing room closed, validation seeds (generation {outcome.best.number})"
        table = Table("trace", "start", "best", title=title)
        for name, (before, after) in shares.items():
            table.add_row(name, f"{100 * before:.1f} %", f"{100 * after:.1f} %")
        results().print(table)
    else:
        results().print(f"fitness in validation: {outcome.start.validation:.3f} at the start, {outcome.validation:.3f}")
    results().print(f"policy: {run.path / 'best'}", soft_wrap=True)
