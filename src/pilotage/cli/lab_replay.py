"""`pilotage lab replay`: the scheduler through a real API server, and the simulator, on the same pods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.options import (
    JsonOption,
    NodesOption,
    PodsOption,
    TraceOption,
    console,
    print_json,
    results,
    trace_source,
)
from pilotage.workloads.files import replace_file

EXAMPLE = "Example: pilotage lab replay --trace openb-like --policy fgd --load 1.3 --seed 42"
LEASE_SECONDS = 3600  # renewals of a thousand leases would only cost time


def replay(
    *,
    nodes: NodesOption = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    policy: Annotated[str, typer.Option("--policy", help="Of both.")] = "fgd",
    load: Annotated[
        float, typer.Option("--load", min=0.0, help="Times the GPU capacity, as in compare; 0: the trace as it is.")
    ] = 1.3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the order of arrival.")] = 42,
    scale: Annotated[
        float, typer.Option("--scale", min=0.001, max=1.0, help="Only this share of the nodes, evenly chosen.")
    ] = 1.0,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The result as JSON.")] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the lab that is made for it.")] = "replay",
    as_json: JsonOption = False,
) -> None:
    """Place the pods of a trace through a real API server and in the simulator: exit code 1 when they differ.

    Order of arrival and load are those of the OpenB protocol; ties go to the first node by name in both.
    """
    import json
    from dataclasses import asdict, replace

    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import down, up
    from pilotage.lab.replaying import replay
    from pilotage.model.clock import SystemClock
    from pilotage.policies.registry import find_policy

    find_policy(policy)
    source = trace_source(nodes, pods, trace).load()
    if scale < 1.0:
        count = max(1, round(scale * len(source.nodes)))
        kept = [source.nodes[i * len(source.nodes) // count] for i in range(count)]
        source = replace(source, nodes=tuple(kept))
    clock = SystemClock()
    with console().status("starting a lab") as status:
        lab = up(name, LabSettings(kube_scheduler=False, lease_seconds=LEASE_SECONDS), progress=status.update)
        try:
            found = replay(lab, source, policy, load, seed, clock, status.update)
        finally:
            status.update("stopping the lab")
            down(name)
    row = {"trace": source.name, **asdict(found), "agrees": found.agrees}
    if out is not None:
        replace_file(out, json.dumps(row, indent=1).encode() + b"\n")
    if as_json:
        print_json(row)
    else:
        for key, value in row.items():
            results().print(f"{key:36} {value}")
    if not found.agrees:
        raise typer.Exit(1)
