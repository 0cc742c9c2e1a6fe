"""`pilotage gang plan`: the next division of a job."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.options import MAX_SEED, JsonOption, print_json, results
from pilotage.model.errors import InputError

EXAMPLE = "Example: pilotage gang plan examples/09_gang/job.yaml --superstep 12 --current 500,500,500,500"


def plan(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    *,
    superstep: Annotated[int, typer.Option("--superstep", min=0, help="Which one comes next.")] = 0,
    current: Annotated[
        str | None, typer.Option("--current", metavar="LIST", help="Milli CPU in force, in the order of the tasks.")
    ] = None,
    window: Annotated[
        int, typer.Option("--window", min=1, max=200, help="Supersteps that the exact division is for.")
    ] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Draws the possible futures.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """The division our controller makes for a superstep, or that it keeps the one in force; beside it the exact one.

    Exact is about the next superstep, or the next --window ones together: no division takes less time for them, by the
    forecast sizes.
    """
    from pilotage.gang.job import read_job
    from pilotage.gang.next_division import plan_next
    from pilotage.report.gang_tables import plan_table

    loaded = read_job(job)
    try:
        shares = None if current is None else [int(part) for part in current.split(",")]
    except ValueError:
        raise InputError(f"cannot read {current!r}", field="--current", expected="numbers such as 500,700") from None
    found = plan_next(loaded, loaded.outlook(), superstep, shares, seed, window)
    if as_json:
        print_json(asdict(found))
    else:
        results().print(plan_table(found))
