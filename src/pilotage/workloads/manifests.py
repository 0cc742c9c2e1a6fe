"""Kubernetes manifests as nodes and a workload.

Reads Node and Pod, and the kinds that make pods: Deployment, ReplicaSet, ReplicationController, StatefulSet, Job,
CronJob (one run) and DaemonSet (one pod for each node that it may use). PriorityClass gives priorities their values;
other kinds are ignored. Pods that have finished, and objects whose owner is read too (the pods of a Deployment in the
output of `kubectl get`), are left out.

Names are deterministic: pods of a set are `name-0`, `name-1`, ..., those of a DaemonSet `name-<node>`. A pod outside
the namespace `default` is called `namespace/name` in the workload, because names are unique only within a namespace.
Pods of a namespace with the same pod-group label are a gang of as many as carry the label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pilotage.model.cluster import Node
from pilotage.model.constraints import Toleration
from pilotage.model.errors import UnknownNameError
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.workloads.affinity import NAME_FIELD
from pilotage.workloads.fields import Field
from pilotage.workloads.nodespec import read_node
from pilotage.workloads.podsets import PodSet, qualified, read_pod_sets
from pilotage.workloads.yaml_documents import MAX_FILE_BYTES, files_under, read_documents

MAX_PODS = 1_000_000  # of one workload, replicas written out

BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

# The API group says which "Job" it is: Volcano, for one, has its own.
_GROUPS = {
    "Node": ("",),
    "Pod": ("",),
    "ReplicationController": ("",),
    "Deployment": ("apps", "extensions"),
    "ReplicaSet": ("apps", "extensions"),
    "DaemonSet": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "Job": ("batch",),
    "CronJob": ("batch",),
    "PriorityClass": ("scheduling.k8s.io",),
}

# What the DaemonSet controller adds to every pod it makes.
DAEMON_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{condition}", "Exists", "", effect)
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


class Manifests(NamedTuple):
    """What the files describe together."""

    nodes: tuple[Node, ...]
    workload: Workload


@dataclass(slots=True)
class _Collected:
    nodes: dict[str, Node] = field(default_factory=dict)
    sets: list[PodSet] = field(default_factory=list)
    priorities: dict[str, int] = field(default_factory=lambda: dict(BUILT_IN_PRIORITIES))
    default_priority: int = 0


def read_manifests(*paths: Path, max_bytes: int = MAX_FILE_BYTES, excluding: Path | None = None) -> Manifests:
    """Nodes and pods of files and directories (read recursively), in the order of paths and documents.

    What lies below the directory `excluding` is left out.
    """
    collected = _Collected()
    for path in chain.from_iterable(files_under(Path(path), excluding) for path in paths):
        for document in read_documents(path, max_bytes=max_bytes):
            _collect(Field.of(document), collected)
    nodes = tuple(collected.nodes.values())
    sets = list(_bounded(_expanded(_without_owned(collected.sets), nodes)))
    timed = any(made.count and made.timed for made in sets)
    return Manifests(nodes, Workload.of(_pods(sets, collected), timed=timed))


def _collect(item: Field, collected: _Collected, implied_kind: str = "") -> None:
    kind = item.get("kind").text(implied_kind or None, expected="the kind of a Kubernetes object, such as Pod")
    if kind.endswith("List") and item.get("items").present:
        for entry in item.get("items").elements():
            _collect(entry, collected, implied_kind=kind.removesuffix("List"))
        return
    version = item.get("apiVersion").text("")
    if kind not in _GROUPS or (version and version.rpartition("/")[0] not in _GROUPS[kind]):
        return
    if kind == "Node":
        node = read_node(item)
        if node.name in collected.nodes:
            raise item.get("metadata").get("name").error(f"the node {node.name!r} is given twice", "one of each name")
        collected.nodes[node.name] = node
    elif kind == "PriorityClass":
        value = item.get("value").integer(low=-(2**31))
        collected.priorities[item.get("metadata").get("name").name()] = value
        if item.get("globalDefault").boolean():
            collected.default_priority = value
    else:
        collected.sets.extend(read_pod_sets(kind, item))


def _without_owned(sets: list[PodSet]) -> Iterator[PodSet]:
    makers = {made.identity for made in sets}
    return (made for made in sets if made.owner not in makers)


def _expanded(sets: Iterable[PodSet], nodes: tuple[Node, ...]) -> Iterator[PodSet]:
    labels = {node.name: {**dict(node.labels), NAME_FIELD: node.name} for node in nodes}
    for made in sets:
        if made.identity[1] != "DaemonSet":
            yield made
            continue
        base = made.shape.constraints
        added = tuple(toleration for toleration in DAEMON_TOLERATIONS if toleration not in base.tolerations)
        daemon = replace(base, tolerations=base.tolerations + added)
        for node in nodes:
            if daemon.allows(node.name, labels[node.name], node.taints):
                # The node has been checked against the terms, so the pin says all.
                pinned = replace(daemon, terms=(), node_name=node.name)
                yield _pinned(made, replace(made.shape, constraints=pinned))


def _pinned(made: PodSet, shape: PodShape) -> PodSet:
    namespace, kind, name = made.identity
    return replace(made, shape=shape, identity=(namespace, kind, f"{name}-{shape.constraints.node_name}"))


def _bounded(sets: Iterable[PodSet]) -> Iterator[PodSet]:
    total = 0
    for made in sets:
        total += made.count
        if total > MAX_PODS:
            raise made.place.error(f"makes {total} pods in all", f"at most {MAX_PODS}")
        yield made


def _pods(sets: list[PodSet], collected: _Collected) -> Iterator[Pod]:
    gangs = _gangs(sets)
    origin = min((made.created for made in sets if made.created is not None), default=0)
    seen: dict[str, PodSet] = {}
    for made in sets:
        shape = replace(made.shape, priority=_priority(made, collected))
        start = float(made.created - origin) if made.created is not None else 0.0
        start = made.arrival if made.arrival is not None else start
        for index, name in enumerate(made.names):
            if name in seen:
                first = seen[name].place
                problem = f"the pod {name!r} is given twice, first in {first.file}, line {first.line}"
                raise made.place.error(problem, "one of each name in a namespace")
            seen[name] = made
            wave = index // made.at_once if made.at_once else 0
            arrival = start + wave * made.duration if wave else start  # 0 * FOREVER is not a number
            yield Pod(name, shape, arrival=arrival, duration=made.duration, gang=gangs.get(_gang_name(made)))


def _gangs(sets: list[PodSet]) -> dict[str, Gang]:
    sizes: Counter[str] = Counter()
    for made in sets:
        if made.group:
            sizes[_gang_name(made)] += made.count
    return {name: Gang(name, size) for name, size in sizes.items()}


def _gang_name(made: PodSet) -> str:
    return qualified(made.identity[0], made.group) if made.group else ""


def _priority(made: PodSet, collected: _Collected) -> int:
    if made.priority is not None:
        return made.priority
    if not made.priority_class:
        return collected.default_priority
    if made.priority_class not in collected.priorities:
        place = {"file": made.place.file, "row": made.place.line, "field": f"document {made.place.document}"}
        raise UnknownNameError("priority class", made.priority_class, collected.priorities, **place)
    return collected.priorities[made.priority_class]
