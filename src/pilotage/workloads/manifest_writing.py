"""Nodes and workloads as Kubernetes manifests that `read_manifests` reads back as equal ones.

GPUs are written as simon knows them: annotations of the pod, `alibabacloud.com/gpu-count` of the node. What has no
place in a manifest comes back in its plain form: the size of a gang is the number of its pods, and zeros in `extended`
and alternatives of a constraint that ask for nothing are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from pilotage.model.cluster import Node
from pilotage.model.constraints import Taint
from pilotage.model.resources import format_cpu, format_memory
from pilotage.model.workload import FOREVER, GPU_MILLI, Pod, PodShape, Workload
from pilotage.workloads.affinity import constraint_fields
from pilotage.workloads.files import replacing
from pilotage.workloads.nodespec import model_of
from pilotage.workloads.podsets import ARRIVAL, DEFAULT_NAMESPACE, DURATION, GROUP_LABELS
from pilotage.workloads.podspec import CARD_MODEL, SHARE_COUNT, SHARE_MILLI

IMAGE = "registry.k8s.io/pause:3.10"  # the pods only take room

Manifest = dict[str, Any]


def node_manifests(nodes: Iterable[Node]) -> Iterator[Manifest]:
    return (_node_manifest(node) for node in nodes)


def pod_manifests(workload: Workload) -> Iterator[Manifest]:
    return (_pod_manifest(pod, timed=workload.timed) for pod in workload)


def write_manifests(path: Path, nodes: Iterable[Node], workload: Workload) -> None:
    """One YAML file with all of it; it appears whole or not at all."""
    documents = chain(node_manifests(nodes), pod_manifests(workload))
    with replacing(path) as stream:
        yaml.dump_all(documents, stream, Dumper=ManifestDumper, sort_keys=False, explicit_start=True, encoding="utf-8")


class ManifestDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes whatever some reader could take for something else than text, and repeats instead of aliasing."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_SURELY_TEXT = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null|nan|inf)$)[A-Za-z][A-Za-z0-9./-]*", re.IGNORECASE)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if _SURELY_TEXT.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


ManifestDumper.add_representer(str, _represent_text)


def _node_manifest(node: Node) -> Manifest:
    offered = {"cpu": format_cpu(node.cpu_milli), "memory": format_memory(node.memory_bytes), "pods": str(node.pods)}
    if node.gpu_count:
        offered |= {SHARE_COUNT: str(node.gpu_count), SHARE_MILLI: str(node.gpu_count * GPU_MILLI)}
    offered |= {name: format_memory(amount) for name, amount in node.extended}
    metadata: Manifest = {"name": node.name, "labels": dict(node.labels)}
    if model_of(metadata["labels"]) != node.gpu_model:
        # The label is what others look at, the annotation tells our reader that it is not among the node's labels.
        metadata["labels"].setdefault(CARD_MODEL, node.gpu_model)
        metadata["annotations"] = {CARD_MODEL: node.gpu_model}
    spec = {"taints": [_taint_fields(taint) for taint in node.taints]} if node.taints else {}
    status = {"allocatable": offered, "capacity": dict(offered)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def _taint_fields(taint: Taint) -> Manifest:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {name: text for name, text in fields.items() if text}


def _pod_manifest(pod: Pod, *, timed: bool) -> Manifest:
    namespace, _, name = pod.name.rpartition("/")
    namespace = namespace or pod.namespace
    annotations = _gpu_annotations(pod.shape)
    if timed or pod.arrival:
        annotations[ARRIVAL] = repr(pod.arrival)
    if pod.duration != FOREVER:
        annotations[DURATION] = repr(pod.duration)
    metadata: Manifest = {"name": name, "namespace": namespace, "annotations": annotations}
    if pod.gang is not None:
        group = pod.gang.name if namespace == DEFAULT_NAMESPACE else pod.gang.name.removeprefix(f"{namespace}/")
        metadata["labels"] = {GROUP_LABELS[0]: group}
    container = {"name": "main", "image": IMAGE, "resources": _resources(pod.shape)}
    spec: Manifest = {"containers": [container], **constraint_fields(pod.shape.constraints)}
    if pod.shape.priority:
        spec["priority"] = pod.shape.priority
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _gpu_annotations(shape: PodShape) -> dict[str, str]:
    if not shape.gpu_count:
        return {}
    annotations = {SHARE_MILLI: str(shape.gpu_milli), SHARE_COUNT: str(shape.gpu_count)}
    return {**annotations, CARD_MODEL: shape.gpu_models} if shape.gpu_models else annotations


def _resources(shape: PodShape) -> dict[str, dict[str, str]]:
    """Requests, and equal limits for extended resources, which the API server asks for."""
    extended = {name: format_memory(amount) for name, amount in shape.extended}
    sizes = {"cpu": format_cpu(shape.cpu_milli), "memory": format_memory(shape.memory_bytes)}
    requests = {name: size for name, size in sizes.items() if size != "0"} | extended
    return {"requests": requests, "limits": extended} if extended else {"requests": requests}
