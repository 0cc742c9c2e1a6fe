"""`pilotage compare`: policies x traces x seeds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.options import (
    ArrivalsOption,
    JobsOption,
    JsonOption,
    LoadOption,
    ManyPodsOption,
    ManyTracesOption,
    MtbfOption,
    MttrOption,
    NodesOption,
    ProtocolOption,
    SeedsOption,
    check_place,
    checked_load,
    checked_timing,
    command_line,
    console,
    parse_policies,
    parse_seeds,
    print_json,
    progress_bar,
    results,
    trace_sources,
    warn_of_gangs,
)

EXAMPLE = "Example: pilotage compare --trace openb-like --policies fgd,best-fit,random --seeds 42-46 --out out"


def compare(
    *,
    nodes: NodesOption = None,
    pods: ManyPodsOption = None,
    trace: ManyTracesOption = None,
    policies: Annotated[
        str,
        typer.Option("--policies", metavar="LIST", help="Names, sums such as 2*fgd+best-fit, or file.py:Class."),
    ] = "fgd,best-fit,gpu-packing,random",
    seeds: SeedsOption = "42-46",
    load: LoadOption = None,
    protocol: ProtocolOption = "openb",
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="POLICY", help="Differences are to this one.  [default: fgd]")
    ] = None,
    arrivals: ArrivalsOption = None,
    warm_up: Annotated[
        float | None,
        typer.Option("--warm-up", min=0, max=0.99, help="timed: share of arrivals not measured.  [default: 0.2]"),
    ] = None,
    mtbf: MtbfOption = None,
    mttr: MttrOption = None,
    jobs: JobsOption = os.cpu_count() or 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write results and report.html there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare policies on traces: a table with mean, 95 % interval, paired difference and room closed."""
    from pilotage.report.tables import summary_table
    from pilotage.sim.compare import Comparison
    from pilotage.sim.compare import compare as run_comparison
    from pilotage.sim.storing import as_json as outcome_json
    from pilotage.sim.storing import write_results

    tuned = checked_load(load, protocol)
    comparison = Comparison(
        sources=trace_sources(nodes, pods, trace),
        policies=parse_policies(policies),
        seeds=parse_seeds(seeds),
        protocol=protocol,
        load=tuned or 0.0,
        baseline=baseline,
        timing=checked_timing(protocol, tuned, arrivals, mtbf, mttr, warm_up),
    )
    check_place(out)
    warn_of_gangs(comparison.sources, protocol)
    screen = console()
    with progress_bar(screen, "comparing") as advance:
        outcome = run_comparison(comparison, jobs, advance)
    if out is not None:
        from pilotage.report.html import write_report

        write_results(outcome, out, command_line())
        report = write_report(outcome, out / "report.html", command_line())
        screen.print(f"report: {report}", soft_wrap=True)
    if as_json:
        print_json(outcome_json(outcome, seconds=True))
    else:
        results().print(summary_table(outcome))
