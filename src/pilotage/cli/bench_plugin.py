"""`pilotage bench plugin`: kube-scheduler with and without the score plugin on the same waiting pods, in turns."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.bench_schedule import LEASE_SECONDS, compared, waiting_pods
from pilotage.cli.options import JsonOption, console, print_json, results

if TYPE_CHECKING:
    from pilotage.lab.controlplane import Lab
    from pilotage.lab.measuring import Measured
    from pilotage.lab.plugin_figures import PluginCounts
    from pilotage.lab.processes import Started
    from pilotage.model.clock import Clock

EXAMPLE = "Example: pilotage bench plugin --nodes 1000 --pods 5000 --rounds 5"
WITH, WITHOUT = "pilotage", "default-scheduler"  # profiles of one kube-scheduler
READY_SECONDS = 120.0


def plugin(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=2, max=20_000, help="Of 64 CPUs.")] = 1000,
    pods: Annotated[int, typer.Option("--pods", min=1, max=100_000, help="That wait.")] = 5000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="Of each, in turns; medians count.")] = 5,
    policy: Annotated[str, typer.Option("--policy", help="Of the service.")] = "least-allocated",
    extender: Annotated[
        bool, typer.Option("--extender", help="The scheduler extender, for scores alone, in the plugin's place.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bindings per second of one kube-scheduler through a profile with the score plugin and through its default one.

    The service runs in all rounds, on the same machine; only the plugin's profile asks it. With --extender two
    configurations are compared instead: extenders are asked for all profiles.
    """
    from dataclasses import replace

    from pilotage.lab import components
    from pilotage.lab.components import LabSettings, write_configuration
    from pilotage.lab.controlplane import down, in_lab, up
    from pilotage.lab.measuring import measure_process, usage
    from pilotage.lab.nodes import add, numbered
    from pilotage.lab.plugin_figures import plugin_counts, plugin_profiles
    from pilotage.lab.ports import free_ports
    from pilotage.lab.processes import stop
    from pilotage.model.clock import SystemClock
    from pilotage.model.cluster import Node

    clock, screen, workload = SystemClock(), console(), waiting_pods(pods)
    found: dict[str, list[Measured]] = {WITH: [], WITHOUT: []}
    counts: list[PluginCounts] = []
    service_seconds: list[float] = []
    settings = LabSettings(kube_scheduler=False, plugin=not extender, lease_seconds=LEASE_SECONDS)
    with screen.status("starting a lab") as status, ExitStack() as ends:
        lab = up("bench", settings)
        ends.callback(down, "bench")
        ends.callback(status.update, "stopping the lab")
        (port,) = free_ports(1, lab.ports.values())
        files = dict.fromkeys((WITH, WITHOUT), plugin_profiles(lab.directory / "serve.sock"))
        if extender:
            files = {WITH: _configuration(port), WITHOUT: _configuration(None)}
        made = numbered(Node("node", 64_000, 256 * 2**30), nodes, "node")
        in_lab(lab, lambda client: add(client, made))
        service = _service(lab, policy, clock, port if extender else None)
        ends.callback(stop, service, clock)
        for number in range(rounds):
            for side in (WITH, WITHOUT) if number % 2 == 0 else (WITHOUT, WITH):
                status.update(f"round {number + 1} of {rounds}: {side}")
                write_configuration(lab.directory, replace(settings, scheduler_file=files[side]))
                before, _ = usage(service.pid)
                round_ = measure_process(
                    lab,
                    side,
                    WITHOUT if extender else side,
                    lambda: lab.started(components.SCHEDULER).processes[components.SCHEDULER],
                    workload,
                    clock,
                    (lambda: None) if extender else (lambda: counts.append(plugin_counts(lab))),
                )
                found[side].append(round_)
                if side == WITH:
                    service_seconds.append(usage(service.pid)[0] - before)
        if extender:
            counts.append(_answers(port, pods * rounds))
    row = _row(nodes, found[WITH], found[WITHOUT], counts, service_seconds)
    if as_json:
        print_json(row)
    else:
        for key, value in row.items():
            results().print(f"{key:40} {value}")


def _configuration(port: int | None) -> str:
    """As docs/kube-scheduler/extender-score.yaml, with a time-out that a busy machine keeps; None: without it."""
    asked = {
        "urlPrefix": f"http://127.0.0.1:{port}/extender",
        "prioritizeVerb": "prioritize",
        "weight": 10,
        "nodeCacheCapable": True,
        "httpTimeout": "1s",
        "ignorable": True,
    }
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "extenders": [asked] if port is not None else [],
        "profiles": [{"schedulerName": WITHOUT}],
    }
    return json.dumps(content)  # JSON is YAML


def _service(lab: Lab, policy: str, clock: Clock, port: int | None) -> Started:
    """Behind the plugin, or one that follows the cluster and answers an extender's questions at a port."""
    from urllib.error import URLError
    from urllib.request import urlopen

    from pilotage.lab.controlplane import LabError
    from pilotage.lab.plugin_figures import start_service
    from pilotage.lab.processes import stop

    socket = lab.directory / "serve.sock"
    if port is None:
        return start_service(lab, socket, policy, clock)
    options = ("--kubeconfig", str(lab.kubeconfig_of("kube-scheduler")), "--port", str(port))
    service, deadline = start_service(lab, socket, policy, clock, *options), clock.now() + READY_SECONDS
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return service
        except (URLError, OSError) as error:
            if clock.now() > deadline:
                stop(service, clock)
                raise LabError(f"the service is not ready: {error}") from error
            clock.wait(0.1)


def _answers(port: int, pods: int) -> PluginCounts:
    """What the service has counted: pods that it did not answer about were decided without it."""
    from urllib.request import urlopen

    from prometheus_client.parser import text_string_to_metric_families

    from pilotage.lab.plugin_figures import PluginCounts

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    reasons: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "pilotage_serve_requests_total" and sample.labels["verb"] == "prioritize":
                reasons[sample.labels["reason"]] += int(sample.value)
    scored = reasons.pop("ok", 0)
    unanswered = pods - scored - reasons.total()
    if unanswered > 0:
        reasons["unanswered"] = unanswered
    return PluginCounts(scored, reasons)


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
