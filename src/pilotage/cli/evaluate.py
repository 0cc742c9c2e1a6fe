"""`pilotage evaluate`: policies against baselines on seeds that nothing was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.kept_runs import Advance, keeping_runs
from pilotage.cli.options import (
    AddressOption,
    ArrivalsOption,
    EngineOption,
    FreshOption,
    JobsOption,
    JsonOption,
    LoadsOption,
    ManyPodsOption,
    ManyTracesOption,
    MtbfOption,
    MttrOption,
    NodesOption,
    OptionalProtocolOption,
    ResultsOption,
    ScenarioOption,
    WarmUpOption,
    check_place,
    command_line,
    console,
    engine_of,
    print_json,
    results,
    warn_of_gangs,
)

if TYPE_CHECKING:
    from pilotage.sim.engines import Engine
    from pilotage.sim.evaluation import Evaluation, Requirements, Trial
    from pilotage.sim.run_store import RunStore

EXAMPLE = "Example: pilotage evaluate gpu-packing --trace openb-like --shift --out evaluated"
PROOF = "What the answer must be (else exit code 1)"  # heading in the help
HABITS = "Against the habits"


def evaluate(
    policies: Annotated[
        list[str] | None,
        typer.Argument(metavar="POLICY...", help="As in compare; also directories with a policy.", show_default=False),
    ] = None,
    *,
    scenario: ScenarioOption = None,
    nodes: NodesOption = None,
    pods: ManyPodsOption = None,
    trace: ManyTracesOption = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            "--baselines",
            metavar="LIST",
            help="Always in; gains are over the first.  [default: fgd,best-fit,least-allocated,random; without GPU "
            "least-allocated,balanced-allocation,round-robin,random]",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="At least ten, of 0-9999.  [default: 42-51]")
    ] = None,
    load: LoadsOption = None,
    protocol: OptionalProtocolOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="LIST",
            help="Keys of a run to judge by, the first counts.  [default: gpu_allocation_percent; without GPU "
            "cpu_variance,memory_variance]",
        ),
    ] = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="Also on other traces, cluster sizes and loads, and with failing nodes.")
    ] = False,
    arrivals: ArrivalsOption = None,
    warm_up: WarmUpOption = None,
    mtbf: MtbfOption = None,
    mttr: MttrOption = None,
    require_win: Annotated[
        float | None,
        typer.Option(
            "--require-win",
            min=0,
            max=1,
            help="Least share of traces won over the first baseline.",
            rich_help_panel=PROOF,
        ),
    ] = None,
    require_seeds: Annotated[
        float | None,
        typer.Option("--require-seeds", min=0, max=1, help="Least share of seeds won.", rich_help_panel=PROOF),
    ] = None,
    require_room: Annotated[
        float | None,
        typer.Option(
            "--require-room", max=100, help="Least percent of the room closed on every trace.", rich_help_panel=PROOF
        ),
    ] = None,
    few_seeds: Annotated[
        bool, typer.Option("--allow-few-seeds", help="Fewer than ten seeds.", rich_help_panel=HABITS)
    ] = False,
    training_seeds: Annotated[
        bool, typer.Option("--allow-training-seeds", help="Seeds of the training range.", rich_help_panel=HABITS)
    ] = False,
    jobs: JobsOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    out: ResultsOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate policies: who wins and who loses against baselines, trace by trace, seed by seed, and by how much.

    Like compare, with stricter habits: baselines always take part, seeds are test seeds and at least ten, and a gain
    that was bought with failed pods does not count. The same --out goes on where an ended evaluation was.
    """
    from pilotage.sim.evaluation import Requirements, trial_of
    from pilotage.sim.scenario import (
        Scenario,
        checked_policies,
        parse_loads,
        parse_policies,
        parse_seeds,
        read_scenario,
        sources_of,
    )

    said = Scenario(
        traces=sources_of(nodes, pods, trace),
        policies=checked_policies(tuple(policies)) if policies else None,
        seeds=None if seeds is None else parse_seeds(seeds),
        loads=None if load is None else parse_loads(load),
        protocol=protocol,
        arrivals=arrivals,
        warm_up=warm_up,
        mtbf=mtbf,
        mttr=mttr,
    )
    trial = trial_of(
        said if scenario is None else read_scenario(scenario).under(said),
        None if baselines is None else parse_policies(baselines),
        tuple(part.strip() for part in metric.split(",")) if metric else (),
        shift=shift,
        few_seeds=few_seeds,
        training_seeds=training_seeds,
    )
    check_place(out)
    base = trial.conditions[0].comparison
    warn_of_gangs(base.sources, base.protocol)
    screen = console()
    for note in trial.notes:
        screen.print(note, soft_wrap=True)
    wanted = Requirements(require_win, require_seeds, require_room)
    evaluation = _run(trial, engine_of(engine, address, jobs), out, fresh, wanted)
    _print(evaluation, as_json)
    for line in evaluation.missed:
        screen.print(f"missed: {line}", soft_wrap=True)
    if evaluation.missed:
        raise typer.Exit(1)


def _run(trial: Trial, engine: Engine, out: Path | None, fresh: bool, wanted: Requirements) -> Evaluation:
    from pilotage.sim.evaluation import evaluate as run_trial

    def work(store: RunStore | None, advance: Advance) -> Evaluation:
        return run_trial(trial, engine, store, lambda _, done, total: advance(done, total), requirements=wanted)

    return keeping_runs(out, "evaluating", work, _write, fresh=fresh)


def _write(evaluation: Evaluation, out: Path) -> Path:
    """A report for each condition; the first has the verdicts."""
    from pilotage.report.html import write_report
    from pilotage.report.verdicts import verdict_section
    from pilotage.sim.evaluation_storing import place_of, write_evaluation

    write_evaluation(evaluation, out, command_line())
    verdicts = verdict_section(evaluation)
    for condition, outcome in zip(evaluation.trial.conditions, evaluation.outcomes, strict=True):
        place = place_of(condition, out) / "report.html"
        write_report(outcome, place, command_line(), verdicts if place.parent == out else "")
    return out / "report.html"


def _print(evaluation: Evaluation, as_json: bool) -> None:
    if as_json:
        from pilotage.sim.evaluation_storing import evaluation_json

        print_json(evaluation_json(evaluation))
        return
    from pilotage.report.verdicts import verdict_tables

    results().print(verdict_tables(evaluation))
