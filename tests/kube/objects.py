"""Objects as an API server would send them."""

from __future__ import annotations

import itertools
from typing import Any

from pilotage.kube.client import Json

_versions = itertools.count(1)


def a_pod(name: str, **more: Any) -> Json:
    """`uid`, `namespace`, `labels`, `annotations`, `node`, `phase` and `requests` have places of their own; other
    keywords are fields of its spec."""
    metadata: Json = {
        "name": name,
        "namespace": more.pop("namespace", "default"),
        "uid": more.pop("uid", f"uid-{name}"),
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": more.pop("created", "2026-01-01T00:00:00Z"),
    }
    for key in ("labels", "annotations", "deletionTimestamp"):
        if key in more:
            metadata[key] = more.pop(key)
    container: Json = {"name": "main", "resources": {"requests": more.pop("requests", {"cpu": "1", "memory": "1Gi"})}}
    if "ports" in more:
        container["ports"] = more.pop("ports")
    spec: Json = {"schedulerName": "pilotage", "containers": [container]}
    status: Json = {"phase": more.pop("phase", "Pending")}
    if "node" in more:
        spec["nodeName"] = more.pop("node")
    return {"metadata": metadata, "spec": {**spec, **more}, "status": status}


def a_node(name: str, cpu: str = "8", gpus: int = 0, **more: Any) -> Json:
    offered = {"cpu": cpu, "memory": "32Gi", "pods": str(more.pop("pods", 110))}
    if gpus:
        offered |= {"alibabacloud.com/gpu-count": str(gpus)}
    offered |= more.pop("offered", {})
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": more, "status": {"allocatable": offered}}
