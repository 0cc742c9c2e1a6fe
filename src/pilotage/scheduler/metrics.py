"""Figures for Prometheus, under kube-scheduler's names where they mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
LONG_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)


class ApiCalls(Collector):
    """Requests as a client counts them; which kinds there are shows while it runs."""

    def __init__(self, calls: Mapping[str, int]) -> None:
        self.calls = calls

    def collect(self) -> Iterable[Metric]:
        found = GaugeMetricFamily("pilotage_api_calls", "Requests to the API server, by kind.", labels=["kind"])
        for kind, count in dict(self.calls).items():  # a copy: who asks is another thread
            found.add_metric([kind], count)
        return [found]


class AdviceMetrics:
    """Of an adviser, which decides and does nothing."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.advised = Counter(
            "pilotage_advised_pods",
            "Pods that others bound, by what would have been done: same, elsewhere, would_wait, failed.",
            ["result", "profile"],
            registry=registry,
        )
        self.overcommitted = Gauge(
            "pilotage_overcommitted_pods", "Pods that others bound where there was no room.", registry=registry
        )


class Metrics:
    """One set per scheduler, in a registry of its own."""

    def __init__(self, api_calls: Mapping[str, int]) -> None:
        self.registry = registry = CollectorRegistry()
        self.attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to place a pod, by what came of them.",
            ["result", "profile"],
            registry=registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of one decision, without its binding.",
            ["result", "profile"],
            buckets=SECONDS,
            registry=registry,
        )
        self.pending = Gauge("scheduler_pending_pods", "Pods that wait, by queue.", ["queue"], registry=registry)
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From when a pod could be decided about to when it was bound.",
            buckets=LONG_SECONDS,
            registry=registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took to bind a pod.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts",
            "Times that room was looked for by telling others to go.",
            registry=registry,
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Pods that were told to go at a time.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.released_gangs = Counter(
            "pilotage_released_gangs", "Gangs whose bound half was released.", registry=registry
        )
        self.bindings = Counter("pilotage_bindings", "Bindings, by what came of them.", ["result"], registry=registry)
        self.overcommitted = Gauge(
            "pilotage_overcommitted_pods", "Pods that others bound where there was no room.", registry=registry
        )
        self.rejected = Counter(
            "pilotage_rejected_pods",
            "Pods that a kubelet refused for want of room, by reason.",
            ["reason"],
            registry=registry,
        )
        registry.register(ApiCalls(api_calls))
        self.leads = Gauge("pilotage_leads", "1 while this process may bind.", registry=registry)
