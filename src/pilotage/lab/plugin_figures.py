"""The score plugin in a lab: profiles that use it, and what it counts, read from kube-scheduler's own /metrics."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pilotage.kube.access import Access, read_kubeconfig
from pilotage.kube.client import Client
from pilotage.lab import components
from pilotage.lab.controlplane import Lab, LabError
from pilotage.lab.ports import LOOPBACK
from pilotage.lab.processes import Started, last_lines, start, stop
from pilotage.model.clock import Clock, SystemClock

SERVICE = "pilotage-serve"
SERVICE_SECONDS = 600.0  # that it may take to be ready: the first start compiles
PROFILES = Path(__file__).with_name("plugin-profiles.yaml")
EXAMPLE_SOCKET = "/run/pilotage/serve.sock"


def plugin_profiles(socket: Path) -> str:
    """The configuration of kube-scheduler that docs/plugin.md shows, with another socket."""
    return PROFILES.read_text().replace(EXAMPLE_SOCKET, str(socket))


def start_service(lab: Lab, socket: Path, policy: str, clock: Clock, *options: str) -> Started:
    """`pilotage serve` on a Unix socket; it answers when this returns."""
    lab.log(SERVICE).unlink(missing_ok=True)  # one that ran before has said there that it listens
    command = [sys.executable, "-m", "pilotage", "serve", "--policy", policy, "--port", "0"]
    process = start(SERVICE, [*command, "--unix-socket", socket, *options], lab.log(SERVICE), lab.directory)
    deadline = clock.now() + SERVICE_SECONDS
    while "listening" not in last_lines(lab.log(SERVICE)) or not socket.exists():
        if not process.alive or clock.now() > deadline:
            stop(process, clock)
            raise LabError(lab.ended(SERVICE, "is not ready"))
        clock.wait(0.05)
    return process


@dataclass(frozen=True)
class PluginCounts:
    """What the score plugin has counted, over all profiles."""

    scored: int
    fallbacks: Counter[str]  # by reason

    @property
    def pods(self) -> int:
        return self.scored + self.fallbacks.total()


def plugin_counts(lab: Lab) -> PluginCounts:
    text = asyncio.run(_metrics(lab))
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        if family.name.startswith("pilotage_plugin_")
        for sample in family.samples
    ]
    fallbacks: Counter[str] = Counter()
    for sample in samples:
        if sample.name == "pilotage_plugin_fallbacks_total" and sample.value:
            fallbacks[sample.labels["reason"]] += int(sample.value)
    scored = sum(int(sample.value) for sample in samples if sample.name == "pilotage_plugin_scored_pods_total")
    return PluginCounts(scored, fallbacks)


async def _metrics(lab: Lab) -> str:
    known = read_kubeconfig(lab.kubeconfig, None, SystemClock())
    access = Access(f"https://{LOOPBACK}:{lab.ports[components.SCHEDULER]}", known.tls, known.tokens)
    async with Client(access) as client:
        return await client.text("/metrics")
