"""What is where after a step, as the files of simon's exportConfig.

Upstream slips are mended: memory that is left is really what is left, in MiB, and the table of pods holds pods after
descheduling too. `ip` is the label node-ip of the node, its name where it has none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pilotage.model.cluster import MEMORY_AXIS, PODS_AXIS, ClusterState, Node
from pilotage.model.workload import MIB, Pod, PodShape, Workload
from pilotage.workloads.files import make_directory, replace_file
from pilotage.workloads.manifest_writing import Manifest, ManifestDumper, pod_manifests
from pilotage.workloads.nodespec import HOSTNAME
from pilotage.workloads.podsets import DEFAULT_NAMESPACE
from pilotage.workloads.simon_survey import GPU_INDEX, UNSCHEDULED

# Nominal memory of a device in MiB; models that are not listed have an empty cell.
GPU_MEMORY_MIB = {"T4": 16384, "P100": 16384, "V100M16": 16384, "V100M32": 32768, "A10": 24576}
MIN_DEVICE_COLUMNS = 8
POD_COLUMNS = (
    "pod",
    "namespace",
    "ip",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_index",
    "gpu_mem_ratio",
    "gpu_milli",
    "model",
    "gpu_mem_mib_each",
    "gpu_mem_mib",
    "gpu_type_req",
    "creation_time",
)


@dataclass(frozen=True, slots=True)
class Seated:
    """A pod and where it is; `node` is empty for a pod that found no place."""

    name: str  # with its namespace, unless that is the default one
    shape: PodShape
    node: str = ""
    devices: int = 0  # bit mask
    created: str = ""

    @property
    def namespace(self) -> str:
        return self.name.rpartition("/")[0] or DEFAULT_NAMESPACE

    @property
    def index(self) -> str:
        """As in the annotation gpu-index."""
        return "-".join(str(d) for d in range(self.devices.bit_length()) if (self.devices >> d) & 1)


def write_tables(directory: Path, state: ClusterState, pods: Sequence[Seated]) -> list[Path]:
    """node-snapshot.csv and pod-snapshot.csv, nodes and pods by name."""
    placed = sorted((pod for pod in pods if pod.node), key=lambda pod: pod.name)
    tables = {"node-snapshot.csv": _node_rows(state), "pod-snapshot.csv": _pod_rows(state, placed)}
    make_directory(directory)
    for name, rows in tables.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        replace_file(directory / name, text.getvalue().encode())
    return [directory / name for name in tables]


def node_columns(devices: int) -> list[str]:
    each = [name for d in range(devices) for name in (f"gpu_milli_left_{d}", f"gpu_mem_mib_left_{d}")]
    first = ["name", "ip", "model", "cpu", "gpu", "memory_mib", "gpu_mem_mib_each", "num_pod", "cpu_milli_left"]
    return [*first, "memory_mib_left", *each, "gpu_milli_left", "gpu_mem_mib_left"]


def _node_rows(state: ClusterState) -> Iterator[list[object]]:
    devices = max(MIN_DEVICE_COLUMNS, state.arrays.device_left_ND.shape[1])
    yield list(node_columns(devices))
    for n, node in sorted(enumerate(state.nodes), key=lambda entry: entry[1].name):
        free_R = state.arrays.free_NR[n].tolist()
        left = state.arrays.device_left_ND[n, : node.gpu_count].tolist()
        memory = GPU_MEMORY_MIB.get(node.gpu_model)
        each: list[object] = []
        for d in range(devices):
            each += [left[d], _part(memory, left[d])] if d < len(left) else ["", ""]
        yield [
            node.name,
            _ip(node),
            node.gpu_model,
            f"{node.cpu_milli / 1000:g}",
            node.gpu_count,
            node.memory_bytes // MIB,
            "" if memory is None else memory,
            node.pods - free_R[PODS_AXIS],
            free_R[0],
            free_R[MEMORY_AXIS] // MIB,
            *each,
            sum(left),
            _part(memory, sum(left)),
        ]


def _pod_rows(state: ClusterState, pods: Sequence[Seated]) -> Iterator[list[object]]:
    yield list(POD_COLUMNS)
    for pod in pods:
        node, shape = state.nodes[state.index[pod.node]], pod.shape
        memory = GPU_MEMORY_MIB.get(node.gpu_model) if shape.gpu_count else None
        yield [
            pod.name.rpartition("/")[2],
            pod.namespace,
            _ip(node),
            shape.cpu_milli,
            shape.memory_bytes // MIB,
            shape.gpu_count,
            pod.index,
            f"{shape.gpu_milli / 10:g}",
            shape.gpu_milli,
            node.gpu_model if shape.gpu_count else "",
            "" if memory is None else memory,
            _part(memory, shape.total_gpu_milli),
            shape.gpu_models,
            pod.created,
        ]


def _ip(node: Node) -> str:
    return dict(node.labels).get("node-ip", node.name)


def _part(memory: int | None, milli: int) -> object:
    return "" if memory is None else memory * milli // 1000


def write_pods(directory: Path, nodes: Sequence[Node], pods: Sequence[Seated]) -> list[Path]:
    """pod-snapshot.yaml: pods pinned to their nodes and devices; those without a place are marked."""
    hostnames = {node.name: dict(node.labels)[HOSTNAME] for node in nodes}
    manifests = pod_manifests(Workload.of(Pod(pod.name, pod.shape) for pod in pods))
    documents = [_pinned(manifest, pod, hostnames) for manifest, pod in zip(manifests, pods, strict=True)]
    make_directory(directory)
    path = directory / "pod-snapshot.yaml"
    data = yaml.dump_all(documents, Dumper=ManifestDumper, sort_keys=False, explicit_start=True, encoding="utf-8")
    replace_file(path, data)
    return [path]


def _pinned(manifest: Manifest, pod: Seated, hostnames: dict[str, str]) -> Manifest:
    annotations = manifest["metadata"]["annotations"]
    if pod.node:
        manifest["spec"]["nodeSelector"] = {HOSTNAME: hostnames[pod.node]}
        annotations |= {GPU_INDEX: pod.index} if pod.index else {}
    else:
        annotations[UNSCHEDULED] = "true"
    return manifest
