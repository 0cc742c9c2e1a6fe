"""`pilotage record`: what any scheduler does in a cluster, as a trace that can be replayed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, check_place, console, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.kube.recording import Recording

EXAMPLE = "Example: pilotage record --kubeconfig $(pilotage lab kubeconfig) --seconds 600 --out recorded"


def record(
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Where nodes.csv, pods.csv, placements.csv, decisions.parquet go."),
    ],
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="How long.  [default: until it is told to end]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Record arrivals, requests, placements and departures of a cluster, whoever schedules it.

    pilotage simulate and compare replay it: --nodes DIR/nodes.csv --pods DIR/pods.csv. pilotage train learns from it:
    evolution --nodes DIR/nodes.csv --pods DIR/pods.csv; imitation --decisions DIR/decisions.parquet.
    """
    from pilotage.kube.recording_files import write_recording

    check_place(out)
    import asyncio

    recording = asyncio.run(_record(kubeconfig, context, seconds))
    workload = recording.workload()
    if not len(workload) or not recording.nodes:
        raise InputError("nothing was recorded", expected="a cluster with nodes and pods")
    write_recording(recording, out)
    figures = {
        "nodes": len(recording.nodes),
        "pods": len(workload),
        "placed": len(recording.placements()),
        "left_out": recording.left_out,
        "constraints_left_out": recording.constrained,
        "nodes_came": recording.nodes_came,
        "nodes_went": recording.nodes_went,
    }
    if as_json:
        print_json({**figures, "directory": str(out)})
    else:
        told = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in figures.items())
        results().print(f"{told}: {out}", soft_wrap=True)


async def _record(kubeconfig: Path | None, context: str | None, seconds: float | None) -> Recording:
    import asyncio

    from pilotage.kube.access import find_access
    from pilotage.kube.many import first_of
    from pilotage.kube.recording import following
    from pilotage.model.clock import SystemClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with following(find_access(kubeconfig, context), SystemClock(), stop, console().print) as recording:
        await first_of(stop, timeout=seconds)
    return recording
