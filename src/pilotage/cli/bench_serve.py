"""`pilotage bench serve`: latency, throughput and memory of the service."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.options import JsonOption, print_json, results

EXAMPLE = "Example: pilotage bench serve --nodes 1000 --calls 100000"


def serve(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=20_000, help="Names in every question.")] = 1000,
    calls: Annotated[int, typer.Option("--calls", min=300, max=10_000_000, help="In all.")] = 100_000,
    rate: Annotated[
        float,
        typer.Option(
            "--rate", min=1.0, max=100_000.0, help="Calls per second to begin with; raised while borne, else lowered."
        ),
    ] = 400.0,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=600.0, help="At each rate.")] = 5.0,
    policy: Annotated[str, typer.Option("--policy", help="That scores.")] = "fgd",
    as_json: JsonOption = False,
) -> None:
    """Prioritize calls, names only, with different pods and orders; service and caller share this machine.

    p50 and p99 are of one caller in a closed loop. calls_per_second is the highest rate at which 99 % of the calls are
    answered within 0.1 s of when they were due. rss_growth_mb is over all calls after the closed loop.
    """
    import asyncio
    from dataclasses import asdict

    from pilotage.serving.measuring import a_process, measure

    with a_process(nodes, policy) as (pid, port):
        found = asdict(asyncio.run(measure(pid, port, nodes, calls=calls, rate=rate, seconds=seconds)))
    if as_json:
        print_json(found)
    else:
        for key, value in found.items():
            results().print(f"{key:20} {value}")
