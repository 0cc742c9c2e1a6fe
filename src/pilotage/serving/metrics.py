"""Figures of the service for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.008, 0.015, 0.03, 0.06, 0.1, 0.2, 0.5, 1.0)


class Metrics:
    """One set per service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "pilotage_serve_requests",
            "Requests, by what was asked and how it ended.",
            ["verb", "reason"],
            registry=registry,
        )
        self.seconds = Histogram(
            "pilotage_serve_request_duration_seconds",
            "From the arrival of a request's head to its answer.",
            ["verb"],
            buckets=SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge("pilotage_serve_requests_in_flight", "Requests under way.", registry=registry)
        self.binds = Counter("pilotage_serve_binds", "Bindings, by what came of them.", ["result"], registry=registry)
        self.nodes = Gauge("pilotage_serve_cluster_nodes", "Nodes in the service's own view.", registry=registry)
        self.pods = Gauge("pilotage_serve_cluster_pods", "Pods in the service's own view.", registry=registry)
        self.sessions = Gauge("pilotage_serve_sessions", "Callers whose snapshots are kept.", registry=registry)
        self.ready = Gauge("pilotage_serve_ready", "1 while requests are answered.", registry=registry)
        self.reloads = Counter(
            "pilotage_serve_reloads", "Readings of policies and keys.", ["result"], registry=registry
        )
        self.problems = Counter("pilotage_serve_problems", "Faults of watches and pods.", registry=registry)
        self.edition = Gauge("pilotage_serve_policy_edition", "How often policies were read again.", registry=registry)
