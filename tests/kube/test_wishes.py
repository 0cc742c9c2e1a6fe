"""Wishes: they move a pod among the nodes that it may use, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from kube.objects import a_node, a_pod
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.podview import read_pod
from pilotage.model.outcome import Scheduled
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle

ZONE = "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}


def placed(**more: Any) -> str:
    """Where first-fit puts a pod: n0 unless a wish says otherwise. A pod with app=web is on n1."""
    cache = ClusterCache()
    soft = more.pop("soft", None)
    taints = [{"key": "busy", "effect": "PreferNoSchedule"}]
    nodes = [a_node(f"n{i}", labels={ZONE: "ab"[i // 2], "disk": "hdd" if i < 3 else "ssd"}) for i in range(4)]
    if soft is not None:
        nodes[soft]["spec"]["taints"] = taints
    NodeFollower(cache).listed(nodes)
    cache.refresh()
    PodFollower(cache).listed([a_pod("web", node="n1", labels={"app": "web"})])
    outcome = Cycle(cache, {"pilotage": find_policy("first-fit")}).attempt(read_pod(a_pod("new", **more)))
    assert isinstance(outcome, Scheduled)
    return outcome.node


def node_wish(key: str, value: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}}


def pod_wish(kind: str, key: str) -> dict[str, Any]:
    term = {"weight": 10, "podAffinityTerm": {"topologyKey": key, "labelSelector": WEB}}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}]


@pytest.mark.parametrize(
    ("more", "node"),
    [
        ({}, "n0"),
        ({"affinity": node_wish("disk", "ssd")}, "n3"),
        ({"affinity": node_wish("disk", "none")}, "n0"),
        ({"affinity": pod_wish("podAffinity", "kubernetes.io/hostname")}, "n1"),
        ({"affinity": pod_wish("podAntiAffinity", ZONE)}, "n2"),
        ({"topologySpreadConstraints": SPREAD}, "n2"),
        ({"soft": 0}, "n1"),
        ({"soft": 0, "tolerations": [{"key": "busy", "operator": "Exists"}]}, "n0"),
        ({"affinity": node_wish("disk", "ssd"), "nodeSelector": {"disk": "hdd"}}, "n0"),
    ],
)
def test_where_a_wish_leads(more: dict[str, Any], node: str) -> None:
    assert placed(**more) == node
