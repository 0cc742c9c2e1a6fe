"""What manifests say beyond `read_manifests`: simon's annotations, and rules that are not simulated.

Rules that forbid nodes and are not simulated are refused outright. Rules that only shift scores are refused when a
score plugin that looks at them is enabled: published configurations disable all of those plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import GPU_MILLI, PodShape
from pilotage.workloads.fields import Field
from pilotage.workloads.podsets import CREATION_TIME, read_pod_sets
from pilotage.workloads.simon_scheduler import GPU_SHARE, INERT_SCORES, SchedulerConfig
from pilotage.workloads.yaml_documents import files_under, read_documents

GPU_INDEX = "alibabacloud.com/gpu-index"
DELETION_TIME = "alibabacloud.com/deletion-time"
UNSCHEDULED = "simon/pod-unscheduled"
AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"
SCORED_IN_FULL = 100  # kube-scheduler scores all nodes of a cluster with fewer nodes than this

_SPREAD = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Service")
_POD_KINDS = ("Pod", *_SPREAD[:-1], "Job", "CronJob", "DaemonSet")
_GROUPS = ("", "apps", "batch", "extensions")
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Special:
    """Annotations of a pod, or of the template that it is made from."""

    index: Field  # devices it must get, as "0-1"
    unscheduled: bool  # fails without an attempt
    created: datetime | None
    deleted: datetime | None


@dataclass(slots=True)
class Survey:
    """What was found in some files."""

    specials: dict[str, Special] = field(default_factory=dict)  # by name of the pod; of a DaemonSet: its own name
    daemons: dict[str, PodShape] = field(default_factory=dict)  # DaemonSets by name: what each of their pods asks for
    looked_at: dict[str, tuple[Field, str]] = field(default_factory=dict)  # score plugin: first place, what it says
    host_ports: bool = False

    def special(self, pod: str, node: str) -> Special | None:
        """Of a pod, which may be one of a DaemonSet for `node`."""
        return self.specials.get(pod) or self.specials.get(self.daemon_of(pod, node))

    def daemon_of(self, pod: str, node: str) -> str:
        """Name of the DaemonSet that makes this pod for `node`, or ""."""
        name = pod.removesuffix(f"-{node}") if node else pod
        return name if node and name != pod and name in self.daemons else ""


def survey(*paths: Path) -> Survey:
    found = Survey()
    for path in chain.from_iterable(files_under(path) for path in paths):
        for document in read_documents(path):
            for kind, item in _objects(Field.of(document)):
                _look_at(kind, item, found)
    return found


def _objects(item: Field, implied: str = "") -> Iterator[tuple[str, Field]]:
    kind = item.get("kind").text(implied)
    if kind.endswith("List") and item.get("items").present:
        for entry in item.get("items").elements():
            yield from _objects(entry, kind.removesuffix("List"))
    elif item.get("apiVersion").text("").rpartition("/")[0] in _GROUPS:
        yield kind, item


def _look_at(kind: str, item: Field, found: Survey) -> None:
    if kind in _SPREAD:
        said = f"a {kind}, whose pods are spread over nodes by default"
        found.looked_at.setdefault("PodTopologySpread", (item.place, said))
    if kind == "Node":
        _look_at_node(item, found)
    if kind not in _POD_KINDS:
        return
    spec = item.get("spec")
    template = item if kind == "Pod" else spec.get("template")
    if kind == "CronJob":
        template = spec.get("jobTemplate").get("spec").get("template")
    _look_at_rules(template.get("spec"), found)
    if kind == "DaemonSet":
        for made in read_pod_sets(kind, item):
            found.daemons |= dict.fromkeys(made.names, made.shape)
    special = _special(template.get("metadata").get("annotations"))
    if special is not None:
        for made in read_pod_sets(kind, item):
            found.specials |= dict.fromkeys(made.names, special)


def _look_at_node(item: Field, found: Survey) -> None:
    for entry in item.get("spec").get("taints").elements():
        if entry.get("effect").value == "PreferNoSchedule":
            found.looked_at.setdefault("TaintToleration", (entry.place, "a taint PreferNoSchedule"))
    images = item.get("status").get("images")
    if images.value:
        found.looked_at.setdefault("ImageLocality", (images.place, "images on the node"))
    avoid = item.get("metadata").get("annotations").get(AVOID_PODS)
    if avoid.present:
        found.looked_at.setdefault("NodePreferAvoidPods", (avoid.place, "pods to avoid"))


def _look_at_rules(spec: Field, found: Survey) -> None:
    affinity = spec.get("affinity")
    preferred = affinity.get("nodeAffinity").get(_PREFERRED)
    if preferred.value:
        found.looked_at.setdefault("NodeAffinity", (preferred.place, "a preferred node affinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name).get(_REQUIRED).value:
            raise affinity.get(name).error("rules between pods are not simulated", "pods without InterPodAffinity")
        if affinity.get(name).get(_PREFERRED).value:
            found.looked_at.setdefault("InterPodAffinity", (affinity.get(name).place, "a preference between pods"))
    for entry in spec.get("topologySpreadConstraints").elements():
        if entry.get("whenUnsatisfiable").value != "ScheduleAnyway":
            raise entry.error("spreading over topologies is not simulated", "pods without PodTopologySpread")
        found.looked_at["PodTopologySpread"] = entry.place, "a topology spread constraint"
    for container in spec.get("containers").elements():
        found.host_ports |= any(port.get("hostPort").value for port in container.get("ports").elements())


def _special(annotations: Field) -> Special | None:
    if not any(annotations.get(key).present for key in (GPU_INDEX, UNSCHEDULED, CREATION_TIME, DELETION_TIME)):
        return None
    created, deleted = _moment(annotations.get(CREATION_TIME)), _moment(annotations.get(DELETION_TIME))
    if created is not None and deleted is not None and deleted < created:
        raise annotations.get(DELETION_TIME).error("is before the creation-time", "a later time")
    unscheduled = annotations.get(UNSCHEDULED).text("") == "true"
    return Special(annotations.get(GPU_INDEX), unscheduled, created, deleted)


def _moment(entry: Field) -> datetime | None:
    if not entry.present:
        return None
    expected = "a time such as 2023-05-01T12:00:00Z"
    try:
        moment = datetime.fromisoformat(entry.text(expected=expected))
    except ValueError as error:
        raise entry.wrong_kind(expected) from error
    if moment.tzinfo is None:
        raise entry.wrong_kind(expected)
    return moment


def refuse_unsupported(
    scheduler: SchedulerConfig, found: Survey, nodes: Sequence[Node], shapes: Sequence[PodShape]
) -> list[str]:
    """Refuses what the scheduler's configuration makes of these nodes and pods but the simulation would not; notes."""
    for plugin, _ in scheduler.scores:
        if plugin in INERT_SCORES and plugin in found.looked_at:
            place, said = found.looked_at[plugin]
            problem = f"{said}: the enabled score plugin {plugin} looks at it, and that is not simulated"
            raise place.error(problem, f"{plugin} under plugins.score.disabled")
        if plugin == "Simon" and any(shape.extended for shape in shapes):
            problem = "pods ask for extended resources, of which the score of Simon knows nothing here"
            raise InputError(problem, file=scheduler.file, expected="another score plugin")
    if any(shape.gpu_count for shape in shapes) and scheduler.missing_gpu_points:
        points = " and ".join(f"plugins.{point}.enabled" for point in scheduler.missing_gpu_points)
        problem = f"pods ask for GPU, which no node gives them without {GPU_SHARE}"
        raise InputError(problem, file=scheduler.file, expected=f"{GPU_SHARE} under {points}")
    if scheduler.percentage < 100 and len(nodes) >= SCORED_IN_FULL:
        said = f"{scheduler.percentage} of" if scheduler.percentage else "kube-scheduler's own choice for"
        problem = f"percentageOfNodesToScore is {said} {len(nodes)} nodes: scoring only some is not simulated"
        raise InputError(problem, file=scheduler.file, expected="percentageOfNodesToScore: 100")
    notes = ["host ports are not simulated: they keep no pod from a node"] if found.host_ports else []
    if len({shape.priority for shape in shapes}) > 1:
        notes.append("pods have different priorities; preemption is not simulated")
    if any(shape.gpu_count > 1 and shape.gpu_milli < GPU_MILLI for shape in shapes):
        notes.append("parts of several devices, with which simon stops, are given on different devices")
    return notes
