"""`pilotage lab faults`: makes things go wrong while pods arrive, and counts what must not happen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, check_place, console, print_json, results
from pilotage.model.errors import UnknownNameError

if TYPE_CHECKING:
    from rich.table import Table

    from pilotage.lab.faults.inject import Fault
    from pilotage.lab.faults.rounds import Row

EXAMPLE = "Example: pilotage lab faults --fault scheduler-killed --rounds 10"
FORBIDDEN = ("lost", "bound_twice", "over_capacity", "over_devices", "half_gangs")
TOLD = ("waiting", "conflicts", "unwritten")


def faults(
    *,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="NAME", help="Repeatable; --list shows them.  [default: all]")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=10_000, help="Of each fault.")] = 1,
    pods: Annotated[int, typer.Option("--pods", min=20, max=20_000, help="That arrive in each round.")] = 200,
    policy: Annotated[str, typer.Option("--policy", help="Of the scheduler.")] = "fgd",
    away: Annotated[
        float, typer.Option("--away", min=0.0, max=3600.0, help="Seconds that kwok is gone at least (kwok-gone).")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the moments at which things go wrong.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where faults.json and faults.csv go.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only say which faults there are.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the lab that is made for it.")] = "faults",
    as_json: JsonOption = False,
) -> None:
    """Make things go wrong in a lab of its own, and count: exit code 1 when anything but zero comes out.

    Counted from the API server's audit log, a watch and the final state, never from what the scheduler says.
    """
    from pilotage.lab.controlplane import down, up
    from pilotage.lab.faults.inject import FAULTS
    from pilotage.lab.faults.rounds import LAB, FaultSettings, run_rounds
    from pilotage.model.clock import SystemClock
    from pilotage.policies.registry import find_policy

    if listed:
        for one in FAULTS:
            results().print(f"{one.name:22} {one.meaning}", soft_wrap=True)
        return
    chosen = _chosen(fault)
    find_policy(policy)
    check_place(out)
    settings, clock, screen = FaultSettings(pods, policy, seed, away), SystemClock(), console()
    rows: list[Row] = []
    with screen.status("starting a lab") as status:
        up(name, LAB, progress=status.update)
        try:
            for one in chosen:
                status.update(one.name)
                rows.append(
                    run_rounds(
                        name,
                        one,
                        rounds,
                        settings,
                        clock,
                        lambda done, counts: status.update(f"{one.name}: {done} of {rounds} rounds"),  # noqa: B023
                    )
                )
                if as_json:
                    print_json(_flat(rows[-1]))
        finally:
            status.update("stopping the lab")
            down(name)
    if not as_json:
        results().print(faults_table(rows))
    if out is not None:
        _write(rows, out)
    if not all(row.counts.faultless for row in rows):
        raise typer.Exit(1)


def _chosen(names: list[str] | None) -> list[Fault]:
    from pilotage.lab.faults.inject import BY_NAME

    for name in names or ():
        if name not in BY_NAME:
            raise UnknownNameError("fault", name, list(BY_NAME))
    return [BY_NAME[name] for name in dict.fromkeys(names or BY_NAME)]


def _flat(row: Row) -> dict[str, object]:
    from dataclasses import asdict

    return {"fault": row.fault, "rounds": row.rounds, "pods": row.pods, **asdict(row.counts)}


def faults_table(rows: list[Row]) -> Table:
    """What must not happen is named where it happened, so that a table of all faults fits a narrow terminal."""
    from rich.table import Column, Table

    table = Table(Column("fault", no_wrap=True), "rounds", "pods", "harm", *TOLD, box=None)
    for row in rows:
        flat = _flat(row)
        happened = ", ".join(f"{flat[key]} {key.replace('_', ' ')}" for key in FORBIDDEN if flat[key])
        table.add_row(
            row.fault,
            str(row.rounds),
            str(row.pods),
            happened or "none",
            *(str(flat[key]) for key in TOLD),
            style="red" if happened else None,
        )
    return table


def _write(rows: list[Row], out: Path) -> None:
    import json

    from pilotage.workloads.files import make_directory, replace_file
    from pilotage.workloads.tables import csv

    make_directory(out)
    flat = [_flat(row) for row in rows]
    replace_file(out / "faults.json", json.dumps(flat, indent=1).encode() + b"\n")
    replace_file(out / "faults.csv", csv(list(flat[0]), flat))
