"""`pilotage apply`: simon configurations as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, check_place, console, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.sim.applying import Applied
    from pilotage.workloads.simon import ClusterConfig
    from pilotage.workloads.simon_scheduler import SchedulerConfig

EXAMPLE = "Example: pilotage apply -f cluster-config.yaml -s scheduler-config.yaml"


def apply(
    *,
    simon_config: Annotated[
        Path, typer.Option("-f", "--simon-config", metavar="FILE", help="What to simulate: kind Config of simon.")
    ],
    scheduler_config: Annotated[
        Path | None,
        typer.Option(
            "-s", "--default-scheduler-config", metavar="FILE", help="How to place: a KubeSchedulerConfiguration."
        ),
    ] = None,
    extended_resources: Annotated[
        list[str] | None, typer.Option("-e", "--extended-resources", metavar="NAME", help="Has no effect, as in simon.")
    ] = None,
    add_nodes: Annotated[
        str | None,
        typer.Option(
            "--add-nodes",
            metavar="SPEC",
            help="Instead: the smallest number of such further nodes with which everything fits. "
            "cpu=96,memory=384Gi,gpus=8,model=G2, like=NODE, or a file with a Node.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 when pods are unscheduled.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Snapshots go there, not where exportConfig says.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the cluster and scheduler configuration of simon: analysis after each step, unscheduled pods, snapshots."""
    from pilotage.sim.applying import apply_config
    from pilotage.workloads.simon import read_cluster_config
    from pilotage.workloads.simon_scheduler import read_scheduler_config

    if scheduler_config is None:
        problem = "a scheduler configuration is needed: it says which plugins score nodes and which GPU a pod gets"
        raise InputError(problem, field="-s", expected="a KubeSchedulerConfiguration, see examples/06_simon")
    if add_nodes is not None and out is not None:
        problem = "has no effect beside --add-nodes, which writes no snapshots"
        raise InputError(problem, field="--out", expected="one of the two")
    check_place(out)
    config, scheduler = read_cluster_config(simon_config), read_scheduler_config(scheduler_config)
    unused = ["-e has no effect"] if extended_resources else []
    config = replace(config, notes=(*config.notes, *unused))
    if add_nodes is not None:
        _plan(config, scheduler, add_nodes, strict, as_json)
        return
    with console().status("running"):
        applied = apply_config(config, scheduler, out)
    _print(applied, as_json)
    if strict and applied.failures:
        raise typer.Exit(1)


def _plan(config: ClusterConfig, scheduler: SchedulerConfig, spec: str, strict: bool, as_json: bool) -> None:
    from pilotage.report.planning import as_dict, planning_table
    from pilotage.sim.applying import plan_config

    with console().status("planning"):
        found = plan_config(config, scheduler, spec)
    _print_notes(found.notes)
    if as_json:
        print_json({"name": config.name, "node": spec, **as_dict([found.plan]), "notes": found.notes})
    else:
        results().print(planning_table([found.plan], f"{config.name}: {spec}"))
    if strict and found.plan.added is None:
        raise typer.Exit(1)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        console().print(f"note: {note}", soft_wrap=True)


def _print(applied: Applied, as_json: bool) -> None:
    from pilotage.report.analysis import applied_report, verdict

    _print_notes(applied.notes)
    for path in applied.files:
        console().print(f"wrote {path}", soft_wrap=True)
    if as_json:
        print_json(applied.as_dict())
        return
    results().print(f"{applied.policy} on {applied.name}: {applied.nodes} nodes, {applied.offered} pods")
    results().print(applied_report(applied))
    results().print(verdict(applied))
