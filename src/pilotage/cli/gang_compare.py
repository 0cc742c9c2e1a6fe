"""`pilotage gang compare`: controllers on a job, or on the published experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, check_place, command_line, console, print_json, progress_bar, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.gang.job import Job

EXAMPLE = "Example: pilotage gang compare examples/09_gang/job.yaml --sweep penalty=1,5,25 --out out/gang"

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Published data: profile, forecasts, actual values, series."),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write results and report.html there.")]


def compare(
    job: Annotated[Path | None, typer.Argument(metavar="[JOB.yaml]", help="The job file.")] = None,
    *,
    published: Annotated[
        bool, typer.Option("--published", help="The published experiment with its whole table of strategies.")
    ] = False,
    data: DataOption = None,
    strategies: Annotated[
        str | None, typer.Option("--strategies", metavar="LIST", help="Such as exppo,dynamic-mpc(10),pilotage.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="LIST", help="For strategies with chance in them.  [default: 0-4]")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="NAME=LIST", help="window, penalty, length or tasks; repeatable."),
    ] = None,
    forecaster: Annotated[
        str | None, typer.Option("--forecaster", metavar="NAME", help="Instead of that of the job, or of stored ones.")
    ] = None,
    supersteps: Annotated[
        str | None, typer.Option("--supersteps", metavar="FROM-TO", help="Of the job.  [default: all]")
    ] = None,
    perfect: Annotated[bool, typer.Option("--perfect", help="Also with forecasts that come true.")] = False,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare controllers: time of all supersteps, new divisions, and the total with their penalty.

    Exit code 1 when a published total does not come out as it was printed.
    """
    check_place(out)
    if published:
        if job is not None:
            raise InputError("two things to compare", expected="a job file or --published")
        if data is None:
            raise InputError("is missing", field="--data", expected="the directory of the published data")
        if forecaster is None:
            fixed = {"--strategies": strategies, "--sweep": sweep, "--supersteps": supersteps, "--seeds": seeds}
            for name, given in (fixed | {"--perfect": perfect}).items():
                if given:
                    raise InputError("has no effect on the published table", field=name, expected="--forecaster too")
            _published(data, out, as_json=as_json)
            return
    loaded = job_of(job, data, forecaster)
    _own(loaded, strategies, seeds, sweep or [], supersteps, perfect, out, as_json=as_json)


def job_of(file: Path | None, data: Path | None, forecaster: str | None) -> Job:
    from pilotage.gang.forecast_trial import forecaster_by_name
    from pilotage.gang.job import read_job
    from pilotage.gang.published import published_job

    if forecaster is not None:
        forecaster_by_name(forecaster)
    if data is not None and file is not None:
        raise InputError("is of the published job", field="--data", expected="a job file or --data, not both")
    if data is not None and forecaster is not None:
        return published_job(data, forecaster)
    if file is None:
        raise InputError("nothing to compare", expected="a job file, or --published --data DIR")
    job = read_job(file)
    return job if forecaster is None else replace(job, forecaster=forecaster)


def _published(directory: Path, out: Path | None, *, as_json: bool) -> None:
    from pilotage.gang.problem import Budget
    from pilotage.gang.published import TASKS, PublishedData, published_bound, published_sweeps, run_published
    from pilotage.gang.storing import as_json as runs_json
    from pilotage.gang.storing import write_results
    from pilotage.report.gang_page import GangOutcome, write_gang_report
    from pilotage.report.gang_tables import parity_table

    data = PublishedData.read(directory)
    with progress_bar(console(), "supersteps of the published table") as advance:
        found = run_published(data, advance)
    runs = [row.run for row in found]
    if out is not None:
        bound = published_bound(data)
        write_results(runs, out, command_line(), bound=round(bound, 6), printed=[row.printed for row in found])
        usual = [run for run in runs if (run.length, run.penalty, run.forecast) == (400, 15.0, "stored")]
        shown = list({run.strategy: run for run in usual}.values())  # some are in two tables
        outcome = GangOutcome("the published experiment", TASKS, Budget(), shown, bound, published_sweeps(runs))
        write_gang_report(outcome, out / "report.html", command_line())
    if as_json:
        print_json(runs_json(runs, seconds=True))
    else:
        results().print(parity_table(found))
    if any(row.equal is False for row in found):
        raise typer.Exit(1)


def _own(
    job: Job,
    strategies: str | None,
    seeds: str | None,
    sweep: list[str],
    supersteps: str | None,
    perfect: bool,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    from pilotage.gang.storing import as_json as runs_json
    from pilotage.gang.storing import write_results
    from pilotage.gang.strategies import (
        DEFAULT,
        Comparison,
        Sweep,
        parse_strategies,
        parse_supersteps,
        parse_sweep,
    )
    from pilotage.report.gang_durations import durations_figures, durations_table
    from pilotage.report.gang_page import GangOutcome, write_gang_report
    from pilotage.report.gang_tables import comparison_table, sweep_table
    from pilotage.sim.scenario import parse_seeds

    wanted = [parse_sweep(text) for text in sweep]
    controllers = parse_strategies(strategies or DEFAULT)
    first, length = parse_supersteps(supersteps, job.rows)
    comparison = Comparison(job, controllers, parse_seeds(seeds or "0-4"), first, length)
    swept: dict[str, Sweep] = {}
    with console().status("forecasting and planning"):
        outlook = job.outlook()
        whole = comparison.problem(outlook)
        runs = comparison.runs_on(whole, job.forecaster)
        if perfect:
            runs += comparison.runs(outlook, perfect=True)
        bound = comparison.bound(outlook)
        for name, values in wanted:
            swept[name] = comparison.sweep(name, values, outlook, whole)
        judged = job.choice, job.durations
    if out is not None:
        write_results(
            runs,
            out,
            command_line(),
            bound=round(bound, 6),
            sweeps=_listed(swept),
            durations=durations_figures(*judged),
        )
        outcome = GangOutcome(job.name, job.names, job.budget, runs, bound, swept, judged)
        write_gang_report(outcome, out / "report.html", command_line())
    if as_json:
        more = {"bound": bound, "sweeps": _listed(swept), "durations": durations_figures(*judged)}
        print_json(runs_json(runs, seconds=True) | more)
        return
    results().print(comparison_table(f"{job.name}: supersteps {runs[0].rows}, penalty {job.penalty:g} s", runs, bound))
    for name, by_value in swept.items():
        results().print(sweep_table(name, by_value))
    results().print(durations_table(*judged))


def _listed(swept: Mapping[str, Mapping[float, Mapping[str, float]]]) -> list[dict[str, object]]:
    return [
        {"sweep": name, "value": value, "strategy": strategy, "total": round(total, 6)}
        for name, by_value in swept.items()
        for value, totals in by_value.items()
        for strategy, total in totals.items()
    ]
