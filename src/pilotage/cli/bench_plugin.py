"""`pilotage bench plugin`: kube-scheduler with and without the score plugin on the same waiting pods, in turns."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.bench_schedule import LEASE_SECONDS, compared, waiting_pods
from pilotage.cli.options import JsonOption, console, print_json, results

if TYPE_CHECKING:
    from pilotage.lab.measuring import Measured
    from pilotage.lab.plugin_figures import PluginCounts

EXAMPLE = "Example: pilotage bench plugin --nodes 1000 --pods 5000 --rounds 5"
WITH, WITHOUT = "pilotage", "default-scheduler"  # profiles of one kube-scheduler


def plugin(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=2, max=20_000, help="Of 64 CPUs.")] = 1000,
    pods: Annotated[int, typer.Option("--pods", min=1, max=100_000, help="That wait.")] = 5000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Of each, in turns; medians count.")] = 5,
    policy: Annotated[str, typer.Option("--policy", help="Of the service.")] = "least-allocated",
    as_json: JsonOption = False,
) -> None:
    """Bindings per second of one kube-scheduler through a profile with the score plugin and through its default one.

    The service runs in all rounds, on the same machine; only the plugin's profile asks it.
    """
    from pilotage.lab import components
    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import down, in_lab, up
    from pilotage.lab.measuring import measure_process, usage
    from pilotage.lab.nodes import add, numbered
    from pilotage.lab.places import run_directory
    from pilotage.lab.plugin_figures import plugin_counts, plugin_profiles, start_service
    from pilotage.lab.processes import stop
    from pilotage.model.clock import SystemClock
    from pilotage.model.cluster import Node

    clock, screen, workload = SystemClock(), console(), waiting_pods(pods)
    found: dict[str, list[Measured]] = {WITH: [], WITHOUT: []}
    counts: list[PluginCounts] = []
    service_seconds: list[float] = []
    socket = run_directory("bench") / "serve.sock"
    settings = LabSettings(
        kube_scheduler=False, plugin=True, lease_seconds=LEASE_SECONDS, scheduler_file=plugin_profiles(socket)
    )
    with screen.status("starting a lab") as status:
        lab = up("bench", settings)
        service = None
        try:
            made = numbered(Node("node", 64_000, 256 * 2**30), nodes, "node")
            in_lab(lab, lambda client: add(client, made))
            service = start_service(lab, socket, policy, clock)
            for number in range(rounds):
                for profile in (WITH, WITHOUT) if number % 2 == 0 else (WITHOUT, WITH):
                    status.update(f"round {number + 1} of {rounds}: {profile}")
                    before, _ = usage(service.pid)
                    round_ = measure_process(
                        lab,
                        profile,
                        profile,
                        lambda: lab.started(components.SCHEDULER).processes[components.SCHEDULER],
                        workload,
                        clock,
                        lambda: counts.append(plugin_counts(lab)),
                    )
                    found[profile].append(round_)
                    if profile == WITH:
                        service_seconds.append(usage(service.pid)[0] - before)
        finally:
            status.update("stopping the lab")
            if service is not None:
                stop(service, clock)
            down("bench")
    row = _row(nodes, found[WITH], found[WITHOUT], counts, service_seconds)
    if as_json:
        print_json(row)
    else:
        for key, value in row.items():
            results().print(f"{key:40} {value}")


def _row(
    nodes: int,
    ours: list[Measured],
    theirs: list[Measured],
    counts: list[PluginCounts],
    service_seconds: list[float],
) -> dict[str, object]:
    return compared(nodes, ours, theirs) | {
        "scored_pods": sum(one.scored for one in counts),
        "fallbacks": dict(sum((one.fallbacks for one in counts), Counter[str]())),
        "service_cpu_seconds_per_1000_pods": round(1000 * median(service_seconds) / ours[0].pods, 2),
    }
