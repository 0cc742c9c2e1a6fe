"""`pilotage bench schedule`: our scheduler and kube-scheduler on the same waiting pods, in turns."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, console, print_json, results

if TYPE_CHECKING:
    from pilotage.lab.measuring import Measured
    from pilotage.model.workload import Workload

EXAMPLE = "Example: pilotage bench schedule --nodes 1000 --pods 5000 --rounds 5"
LEASE_SECONDS = 3600  # renewals of leases would be part of what is measured


def schedule(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=20_000, help="Of 64 CPUs.")] = 1000,
    pods: Annotated[int, typer.Option("--pods", min=1, max=100_000, help="That wait.")] = 5000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Of each, in turns; medians count.")] = 5,
    policy: Annotated[str, typer.Option("--policy", help="Of ours.")] = "least-allocated",
    there: Annotated[
        int, typer.Option("--there", min=0, max=200_000, help="Pods that are on the nodes already, for memory.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Bindings per second, processor time and requests of our scheduler and of kube-scheduler, in a lab of its own."""
    from pilotage.lab.components import LabSettings
    from pilotage.lab.controlplane import down, in_lab, up
    from pilotage.lab.measuring import OURS, THEIRS, THERE, fill, measure
    from pilotage.lab.nodes import add, numbered
    from pilotage.model.clock import SystemClock
    from pilotage.model.cluster import Node
    from pilotage.policies.registry import find_policy
    from pilotage.scheduler.timing import decision_seconds, p99

    clock, screen, deciding = SystemClock(), console(), find_policy(policy)
    workload = waiting_pods(pods)
    found: dict[str, list[Measured]] = {OURS: [], THEIRS: []}
    reports = []
    with screen.status("starting a lab") as status:
        lab = up("bench", LabSettings(kube_scheduler=False, lease_seconds=LEASE_SECONDS))
        try:
            made = numbered(Node("node", 64_000, 256 * 2**30), nodes, "node")
            in_lab(lab, lambda client: add(client, made))
            if there:
                fill(lab, made, there, clock, lambda done, total: status.update(f"{done} of {total} pods are there"))
            report = lab.directory / "report.json"
            arguments = ["--profile", f"{OURS}={policy}", "--report", str(report)]
            for number in range(rounds):
                for scheduler in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
                    status.update(f"round {number + 1} of {rounds}: {scheduler}")
                    found[scheduler].append(measure(lab, scheduler, workload, arguments, clock))
                reports.append(json.loads(Path(report).read_bytes()))
        finally:
            status.update("stopping the lab")
            down("bench")
    row = _row(nodes, found[OURS], found[THEIRS], reports) | {"there": there}
    # The live figure is processor time; wall time is measured where nobody else is on the machine's cores.
    row["snapshot_decision_p99_ms"] = round(1000 * p99(decision_seconds(made, [THERE] * there, workload, deciding)), 3)
    if as_json:
        print_json(row)
    else:
        for key, value in row.items():
            results().print(f"{key:40} {value}")


def waiting_pods(count: int) -> Workload:
    """Of four sizes."""
    from pilotage.model.workload import Pod, PodShape, Workload

    sizes = [PodShape(cpu_milli=cpu, memory_bytes=2**29 * (1 + n)) for n, cpu in enumerate((100, 250, 500, 1000))]
    return Workload.of(Pod(f"bench-{i:05d}", sizes[i % len(sizes)]) for i in range(count))


def _row(
    nodes: int, ours: list[Measured], theirs: list[Measured], reports: list[dict[str, float]]
) -> dict[str, object]:
    return compared(nodes, ours, theirs) | {
        "api_calls_per_pod": round(max(report["api_calls_per_pod"] for report in reports), 3),
        "decision_p99_ms": round(median(report["decision_p99_ms"] for report in reports), 3),
        "events_per_pod": round(median(row.events / row.pods for row in ours), 3),
        "kube_scheduler_events_per_pod": round(median(row.events / row.pods for row in theirs), 3),
        "peak_rss_mb": round(max(row.peak_rss_mb for row in ours), 1),
        "kube_scheduler_peak_rss_mb": round(max(row.peak_rss_mb for row in theirs), 1),
    }


def compared(nodes: int, ours: list[Measured], theirs: list[Measured]) -> dict[str, object]:
    """Pods per second and CPU of rounds that alternated: medians, and the range of the speeds."""

    def per_thousand(rows: list[Measured]) -> float:
        return round(median(1000 * row.cpu_seconds / row.pods for row in rows), 2)

    speeds = [[row.pods_per_second for row in rows] for rows in (ours, theirs)]
    return {
        "nodes": nodes,
        "pods": ours[0].pods,
        "pods_per_second": round(median(speeds[0]), 1),
        "kube_scheduler_pods_per_second": round(median(speeds[1]), 1),
        "ratio": round(median(speeds[0]) / median(speeds[1]), 3),
        "cpu_seconds_per_1000_pods": per_thousand(ours),
        "kube_scheduler_cpu_seconds_per_1000_pods": per_thousand(theirs),
        "range": [round(edge(speeds[0]), 1) for edge in (min, max)],
        "kube_scheduler_range": [round(edge(speeds[1]), 1) for edge in (min, max)],
        "rounds": len(ours),
    }
