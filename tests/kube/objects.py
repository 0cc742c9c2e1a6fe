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


def a_claim(name: str, volume: str = "", **more: Any) -> Json:
    """`bound` (as soon as there is a volume), `modes`, `owner`, `phase`, `namespace`; others are fields of metadata."""
    namespace, bound = more.pop("namespace", "default"), more.pop("bound", bool(volume))
    spec: Json = {"accessModes": more.pop("modes", ["ReadWriteOnce"]), "resources": {"requests": {"storage": "1Gi"}}}
    if volume:
        spec["volumeName"] = volume
    status = {"phase": more.pop("phase", "Bound" if bound else "Pending")}
    metadata: Json = {"name": name, "namespace": namespace}
    if bound:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if "owner" in more:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": more.pop("owner"), "controller": True}
        metadata["ownerReferences"] = [owner]
    return {"metadata": {**metadata, **more}, "spec": spec, "status": status}


def a_volume(name: str, claim: str = "", **more: Any) -> Json:
    """`labels`, `terms` of its node affinity, `driver`, `handle`, `namespace` of its claim; others are fields of its
    spec."""
    namespace = more.pop("namespace", "default")
    spec: Json = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    metadata = {"name": name, "labels": more.pop("labels", {})}
    if claim:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
    if "terms" in more:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": more.pop("terms")}}
    if "driver" in more:
        spec["csi"] = {"driver": more.pop("driver"), "volumeHandle": more.pop("handle", name)}
    return {"metadata": metadata, "spec": {**spec, **more}}


def a_csi_node(name: str, **limits: int | None) -> Json:
    """Limits by driver; None: it has no limit."""
    drivers: list[Json] = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in limits.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def an_attachment(name: str, node: str, driver: str, volume: str) -> Json:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": name}, "spec": spec}


def claiming(*names: str) -> list[Json]:
    """Volumes of a pod."""
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]
