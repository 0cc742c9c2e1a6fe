"""The nodes and pods of a simon cluster: manifests with simon's annotations, pods sorted by name.

Annotations that `read_manifests` does not know: alibabacloud.com/gpu-index (devices the pod must get), deletion-time
beside creation-time, and simon/pod-unscheduled (fails without an attempt). What ties a pod to one node is taken off its
copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from pilotage.model.cluster import MAX_DEVICES, Node
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, BoolArray, IntArray, Pod, PodShape, Workload
from pilotage.workloads.affinity import ALREADY_BOUND
from pilotage.workloads.fields import Field
from pilotage.workloads.manifests import read_manifests
from pilotage.workloads.nodespec import HOSTNAME
from pilotage.workloads.simon_survey import Special, Survey, survey

_DEVICE = re.compile(r"[0-9]{1,2}")
_NODE_LABELS = (HOSTNAME, "node-ip")  # selectors that name one node


@dataclass(frozen=True)
class SimonPods:
    """Pods as columns, sorted by name without namespace. Without times they arrive at 0 and stay."""

    workload: Workload
    daemon_P: BoolArray  # of a DaemonSet
    marked_P: BoolArray  # simon/pod-unscheduled
    dated_P: BoolArray  # has a creation-time
    created_P: tuple[str, ...]  # the creation-time, "" = none

    def take(self, rows: IntArray, names: Sequence[str] | None = None) -> SimonPods:
        return SimonPods(
            self.workload.take(rows, names),
            self.daemon_P[rows],
            self.marked_P[rows],
            self.dated_P[rows],
            tuple(self.created_P[row] for row in rows),
        )

    def map_shapes(self, change: Callable[[PodShape], PodShape]) -> SimonPods:
        return replace(self, workload=replace(self.workload, shapes=tuple(map(change, self.workload.shapes))))

    def copies(self, rows: IntArray, suffix: str) -> SimonPods:
        """Pods like those of `rows`, free to go anywhere, without times, called name-suffix-0, -1, ..."""
        names = [f"{self.workload.names[row]}-{suffix}-{i}" for i, row in enumerate(rows)]
        taken = self.take(rows, names).map_shapes(unpinned)
        stays = replace(taken.workload, arrival_P=np.zeros(len(rows)), duration_P=np.full(len(rows), FOREVER))
        return replace(taken, workload=stays, dated_P=np.zeros(len(rows), np.bool_), created_P=("",) * len(rows))

    @classmethod
    def joined(cls, parts: Sequence[SimonPods]) -> SimonPods:
        """One after the other."""
        pods = [pod for part in parts for pod in part.workload]
        return cls(
            Workload.of(pods),
            np.concatenate([part.daemon_P for part in parts]),
            np.concatenate([part.marked_P for part in parts]),
            np.concatenate([part.dated_P for part in parts]),
            tuple(created for part in parts for created in part.created_P),
        )


@dataclass(frozen=True)
class SimonCluster:
    """What a directory of manifests describes."""

    nodes: tuple[Node, ...]
    pods: SimonPods
    survey: Survey


def read_cluster(*paths: Path) -> SimonCluster:
    """Nodes and pods of files and directories; every node gets the host name label that a kubelet would give it."""
    found, manifests = survey(*paths), read_manifests(*paths)
    nodes = tuple(_with_hostname(node) for node in manifests.nodes)
    return SimonCluster(nodes, _simon_pods(manifests.workload, found), found)


def read_app(path: Path, directory: Path, cluster: SimonCluster) -> SimonCluster:
    """The pods of an app, read together with the cluster of `directory`, whose nodes and priorities they go by."""
    both, own = read_cluster(directory, path), set(cluster.pods.workload.names)
    if len(both.nodes) > len(cluster.nodes):
        raise InputError("an app brings no nodes", file=path, expected="pods and what makes pods")
    rows = np.array([row for row, name in enumerate(both.pods.workload.names) if name not in own], np.int64)
    return replace(both, pods=both.pods.take(rows))


def unpinned(shape: PodShape) -> PodShape:
    """The shape of a copy: without what ties the pod to one node and its devices."""
    old = shape.constraints
    terms = tuple(tuple(r for r in term if r.key not in _NODE_LABELS or r.operator != "In") for term in old.terms)
    free = Constraints(
        terms=terms if all(terms) else (),
        tolerations=tuple(toleration for toleration in old.tolerations if toleration != ALREADY_BOUND),
    )
    return replace(shape, gpu_devices=0, constraints=free)


def _with_hostname(node: Node) -> Node:
    labels = {HOSTNAME: node.name, **dict(node.labels)}
    return replace(node, labels=tuple(sorted(labels.items())))


def _simon_pods(workload: Workload, found: Survey) -> SimonPods:
    order = sorted(range(len(workload)), key=lambda p: workload.names[p].rpartition("/")[::-1])
    pods = [workload.pod(p) for p in order]
    specials = [found.special(pod.name, pod.shape.constraints.node_name) for pod in pods]
    origin = _origin(specials)
    return SimonPods(
        Workload.of(_annotated(pod, special, origin) for pod, special in zip(pods, specials, strict=True)),
        np.array([bool(found.daemon_of(pod.name, pod.shape.constraints.node_name)) for pod in pods], np.bool_),
        np.array([special is not None and special.unscheduled for special in specials], np.bool_),
        np.array([special is not None and special.created is not None for special in specials], np.bool_),
        tuple(special.created.isoformat() if special and special.created else "" for special in specials),
    )


def _origin(specials: Sequence[Special | None]) -> datetime | None:
    """Time 0: the first creation, or the first deletion where nothing says when it was created."""
    known = [special for special in specials if special is not None]
    created = [special.created for special in known if special.created is not None]
    deleted = [special.deleted for special in known if special.deleted is not None]
    return min(created or deleted, default=None)


def _annotated(pod: Pod, special: Special | None, origin: datetime | None) -> Pod:
    if special is None:
        return Pod(pod.name, pod.shape)
    shape = replace(pod.shape, gpu_devices=_devices(special.index, pod.shape)) if special.index.present else pod.shape
    arrival, duration = 0.0, FOREVER
    if special.created is not None and origin is not None:
        arrival = (special.created - origin).total_seconds()
    if special.deleted is not None and origin is not None:
        duration = max(0.0, (special.deleted - origin).total_seconds() - arrival)
    return Pod(pod.name, shape, arrival=arrival, duration=duration)


def _devices(index: Field, shape: PodShape) -> int:
    text = index.text(expected='numbers of devices such as "0" or "0-1"')
    parts = text.split("-")
    numbers = {int(part) for part in parts if _DEVICE.fullmatch(part) and int(part) < MAX_DEVICES}
    if len(numbers) != len(parts):
        raise index.wrong_kind(f'different numbers of devices below {MAX_DEVICES} such as "0" or "0-1"')
    if len(numbers) != shape.gpu_count:
        raise index.error(f"{len(numbers)} devices for a pod that asks for {shape.gpu_count}", "as many as it asks for")
    return sum(1 << number for number in numbers)
