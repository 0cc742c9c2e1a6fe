"""`pilotage compare`: policies x traces x loads x seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.kept_runs import keeping_runs
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
    SeedsOption,
    WarmUpOption,
    check_place,
    command_line,
    engine_of,
    print_json,
    results,
    warn_of_gangs,
)
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.sim.compare import Comparison, Outcome
    from pilotage.sim.engines import Engine

EXAMPLE = "Example: pilotage compare --trace openb-like --policies fgd,best-fit,random --seeds 42-46 --out out"
PLAN = "Capacity and consolidation"  # heading in the help


def compare(
    *,
    scenario: ScenarioOption = None,
    nodes: NodesOption = None,
    pods: ManyPodsOption = None,
    trace: ManyTracesOption = None,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="LIST",
            help="Names, sums such as 2*fgd+best-fit, or file.py:Class.  [default: fgd,best-fit,gpu-packing,random]",
        ),
    ] = None,
    seeds: SeedsOption = None,
    load: LoadsOption = None,
    protocol: OptionalProtocolOption = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="POLICY", help="Differences are to this one.  [default: fgd]")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option("--price", metavar="MONEY", help="Of a GPU hour, as '2.5 EUR': saved money in reports."),
    ] = None,
    arrivals: ArrivalsOption = None,
    warm_up: WarmUpOption = None,
    mtbf: MtbfOption = None,
    mttr: MttrOption = None,
    add_nodes: Annotated[
        str | None,
        typer.Option(
            "--add-nodes",
            metavar="SPEC",
            help="Instead: the smallest number of such further nodes with which everything fits, per policy. "
            "cpu=96,memory=384Gi,gpus=8,model=G2, like=NODE, or a file with a Node.",
            rich_help_panel=PLAN,
        ),
    ] = None,
    consolidate: Annotated[
        str | None,
        typer.Option(
            "--consolidate",
            metavar="METHOD",
            help="Run each policy also with moving pods: cosSim, fragOnePod or fragMultiPod.",
            rich_help_panel=PLAN,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            min=0,
            max=1,
            help="Share of running pods to move at most.  [default: 0.02]",
            rich_help_panel=PLAN,
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", min=0.001, help="timed: hours between moves.  [default: ten times in all]", rich_help_panel=PLAN
        ),
    ] = None,
    jobs: JobsOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    out: ResultsOption = None,
    fresh: FreshOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare policies on traces: a table with mean, 95 % interval, paired difference and room closed.

    A comparison that was ended goes on where it was when it is started again with the same --out.
    """
    from pilotage.sim.scenario import (
        DEFAULT_POLICIES,
        Scenario,
        parse_loads,
        parse_policies,
        parse_price,
        parse_seeds,
        read_scenario,
        sources_of,
    )

    said = Scenario(
        traces=sources_of(nodes, pods, trace),
        policies=None if policies is None else parse_policies(policies),
        seeds=None if seeds is None else parse_seeds(seeds),
        loads=None if load is None else parse_loads(load),
        protocol=protocol,
        baseline=baseline,
        arrivals=arrivals,
        warm_up=warm_up,
        mtbf=mtbf,
        mttr=mttr,
        consolidate=consolidate,
        budget=budget,
        every=every,
        price=None if price is None else parse_price(price),
    )
    wanted = said if scenario is None else read_scenario(scenario).under(said)
    if add_nodes is not None:
        # Chance needs hundreds of nodes more, each tried: not without being asked for.
        wanted = Scenario(policies=DEFAULT_POLICIES[:-1]).under(wanted)
        for name, given in (("--engine", engine != "local"), ("--fresh", fresh), ("--baseline", baseline is not None)):
            if given:
                raise InputError("has no effect on planning", field=name, expected="--add-nodes without it")
    comparison = wanted.comparison()
    if add_nodes is not None:
        from pilotage.cli.planning import plan

        plan(comparison, add_nodes, out, as_json=as_json)
        return
    check_place(out)
    warn_of_gangs(comparison.sources, comparison.protocol)
    outcome = _run(comparison, engine_of(engine, address, jobs), out, fresh)
    if as_json:
        from pilotage.sim.storing import as_json as outcome_json

        print_json(outcome_json(outcome, seconds=True))
    else:
        from pilotage.report.tables import summary_table

        results().print(summary_table(outcome))


def _run(comparison: Comparison, engine: Engine, out: Path | None, fresh: bool) -> Outcome:
    from pilotage.sim.compare import compare as run_comparison

    return keeping_runs(
        out,
        "comparing",
        lambda store, advance: run_comparison(comparison, engine, store, advance),
        _write,
        fresh=fresh,
    )


def _write(outcome: Outcome, out: Path) -> Path:
    from pilotage.report.html import write_report
    from pilotage.sim.storing import write_results

    write_results(outcome, out, command_line())
    return write_report(outcome, out / "report.html", command_line())
