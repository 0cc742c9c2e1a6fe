"""`pilotage lab demo`: a lab, a load, our policies and kube-scheduler on it, the difference, and nothing left."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, console, print_json, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilotage.lab.comparing import Placed
    from pilotage.lab.controlplane import Lab

EXAMPLE = "Example: pilotage lab demo --pods 500 --nodes 50"
POLICIES = ("pilotage-pack", "pilotage-balance")
THEIRS = "kube-scheduler"


def demo(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=2, max=2000, help="CPU and GPU nodes, mixed.")] = 50,
    pods: Annotated[int, typer.Option("--pods", min=1, max=20_000, help="Of the trace openb-like.")] = 500,
    as_json: JsonOption = False,
) -> None:
    """Build what is missing, start a lab, place the same pods by our policies and by kube-scheduler, stop it.

    kube-scheduler knows nothing of shares of a GPU: to it such pods ask for CPU and memory alone.
    """
    from dataclasses import replace

    import numpy as np

    from pilotage.lab.build import build
    from pilotage.lab.comparing import placed
    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import down, in_lab, up
    from pilotage.lab.load import LoadSettings, clean, create, until_settled
    from pilotage.lab.nodes import add
    from pilotage.model.clock import SystemClock
    from pilotage.model.workload import FOREVER
    from pilotage.workloads.generate import openb_like_nodes, openb_like_pods

    clock, screen = SystemClock(), console()
    found: list[Placed] = []
    cluster = openb_like_nodes(nodes / 1213)[:nodes]
    workload = openb_like_pods(pods)
    forever = np.full(len(workload), FOREVER)
    workload = replace(workload, duration_P=forever, timed=False)  # they stay: what is compared is where they are
    with screen.status("building") as status:
        build(lambda name, count: status.update(f"building {name}: {count} packages compiled"))
        status.update("starting a lab")
        lab = up("demo", LabSettings(), progress=status.update)
        try:
            in_lab(lab, lambda client: add(client, cluster))
            for policy in (*POLICIES, THEIRS):
                status.update(f"{len(workload)} pods by {policy}")
                ours = policy != THEIRS
                settings = LoadSettings(scheduler=policy if ours else "default-scheduler", name="demo")
                with _running(lab, policy, enabled=ours):
                    in_lab(lab, lambda client: create(client, workload, settings, clock))  # noqa: B023
                    in_lab(lab, lambda client: until_settled(client, settings, len(workload), clock))  # noqa: B023
                    found.append(in_lab(lab, lambda client: placed(client, policy, cluster, "load")))  # noqa: B023
                in_lab(lab, lambda client: clean(client, settings, clock))  # noqa: B023
        finally:
            status.update("stopping the lab")
            down("demo")
    _show(found, as_json=as_json)


@contextmanager
def _running(lab: Lab, policy: str, *, enabled: bool) -> Iterator[None]:
    """Our scheduler as a process of its own, as on any cluster."""
    from pilotage.lab.processes import start, stop
    from pilotage.model.clock import SystemClock

    if not enabled:
        yield
        return
    command = [sys.executable, "-m", "pilotage", "schedule", "--profile", f"{policy}={policy}", "--no-leader-election"]
    command += ["--kubeconfig", str(lab.kubeconfig_of("kube-scheduler")), "--trace", "openb-like"]
    process = start(policy, command, lab.directory / f"{policy}.log", lab.directory)
    try:
        yield
    finally:
        stop(process, SystemClock())


def _show(found: list[Placed], *, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.table import Column, Table

    if as_json:
        print_json([asdict(row) for row in found])
        return
    columns = ("bound", "waiting", "GPU %", "CPU %", "CPU variance", "nodes over", "over in GPU")
    table = Table(Column("scheduler", no_wrap=True), *columns, padding=(0, 0, 0, 1))  # 80 characters show all of it
    for row in found:
        table.add_row(
            row.scheduler,
            str(row.bound),
            str(row.waiting),
            f"{row.gpu_allocation_percent:.2f}",
            f"{row.cpu_allocation_percent:.2f}",
            f"{row.cpu_variance:.4f}",
            str(row.over_capacity),
            str(row.over_gpu),
        )
    results().print(table)
