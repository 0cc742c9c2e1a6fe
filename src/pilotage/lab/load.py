"""The workload simulator: pods, Jobs and Deployments made from a trace, at its times or at once, and taken away again.

Everything it makes carries a label, so that taking away takes exactly that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.many import AT_ONCE, for_each
from pilotage.lab import watching
from pilotage.lab.gangs import describe_gangs, in_group, native_form
from pilotage.lab.namespaces import ensure, ensure_namespace
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Workload
from pilotage.workloads.manifest_writing import pod_manifests
from pilotage.workloads.podsets import GROUP_LABELS

LABEL = "lab.pilotage/load"
MOST_REPLICAS = 10  # of one Deployment
POLL_SECONDS = 0.2
GONE_SECONDS = 300.0  # without one pod less
TOO_LONG = 504  # a request took longer than the server allows

Form = Literal["pods", "jobs", "deployments", "mixed"]
Progress = Callable[[int, int], None]

COLLECTIONS = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
}


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What is made of a trace's pods."""

    namespace: str = "load"
    scheduler: str = "default-scheduler"
    form: Form = "pods"
    speed: float = 0.0  # times as fast as the trace's own times; 0 = all at once
    in_order: bool = False  # one request at a time, so that pods are created in the order of the trace
    name: str = "load"  # value of the label


@dataclass(frozen=True, slots=True)
class Limits:
    """Shares of what the nodes offer; pods are made until one is reached. 0 = no limit."""

    cpu: float = 0.0
    memory: float = 0.0
    pods: float = 0.0


def up_to(workload: Workload, nodes: Sequence[Node], limits: Limits) -> Workload:
    """The first pods of a workload, repeated as often as needed, until a limit is reached."""
    wanted = [share for share in (limits.cpu, limits.memory, limits.pods) if share > 0]
    if not wanted:
        return workload
    if not nodes:
        raise InputError("the lab has no nodes", expected="pilotage lab nodes add")
    asked = np.array([(shape.cpu_milli, shape.memory_bytes, 1) for shape in workload.shapes], np.float64)
    offered = np.array([[node.cpu_milli, node.memory_bytes, node.pods] for node in nodes], np.float64).sum(axis=0)
    limit = np.array([limits.cpu or np.inf, limits.memory or np.inf, limits.pods or np.inf]) * offered
    per_round = asked[workload.shape_P].sum(axis=0)
    with np.errstate(divide="ignore"):
        rounds = int(np.ceil(np.min(limit / np.maximum(per_round, 1.0)))) + 1
    if rounds * len(workload) > 1_000_000:
        raise InputError(f"{rounds * len(workload)} pods would be needed", expected="a trace with larger pods")
    rows = np.tile(np.arange(len(workload)), rounds)
    used = np.cumsum(asked[workload.shape_P[rows]], axis=0)
    count = int((used <= limit).all(axis=1).sum())
    if not count:
        raise InputError("not even one pod is within the limits", expected="higher limits, or more nodes")
    kept = rows[:count]
    names = [f"{workload.names[p]}-{round_}" for p, round_ in zip(kept, np.arange(count) // len(workload), strict=True)]
    return replace(workload.take(kept, names), timed=False)


def objects(workload: Workload, settings: LoadSettings) -> Iterator[tuple[float, str, Json]]:
    """When each is made, where, and what; in the order of the workload."""
    batch: list[Json] = []
    for number, (pod, arrival) in enumerate(zip(pod_manifests(workload), workload.arrival_P, strict=True)):
        form = settings.form if settings.form != "mixed" else ("pods", "jobs", "deployments")[number % 3]
        made = _prepared(pod, settings)
        if form == "deployments":
            if batch and (batch[0]["spec"] != made["spec"] or len(batch) == MOST_REPLICAS):
                yield _as_deployment(batch, float(arrival), settings)
                batch = []
            batch.append(made)
        elif form == "jobs":
            yield float(arrival), COLLECTIONS["Job"].format(settings.namespace), _as_job(made)
        else:
            yield float(arrival), COLLECTIONS["Pod"].format(settings.namespace), made
    if batch:
        yield _as_deployment(batch, float(workload.arrival_P[-1]), settings)


def _prepared(pod: Json, settings: LoadSettings) -> Json:
    metadata, spec = pod["metadata"], dict(pod["spec"])
    priority = spec.pop("priority", 0)
    if priority:
        spec["priorityClassName"] = priority_class(priority)
    spec |= {"schedulerName": settings.scheduler, "terminationGracePeriodSeconds": 0, "restartPolicy": "Never"}
    spec["automountServiceAccountToken"] = False
    labels = {**metadata.get("labels", {}), LABEL: settings.name}
    if GROUP_LABELS[0] in labels:
        labels[GROUP_LABELS[0]] = object_name(labels[GROUP_LABELS[0]])
    metadata = {"name": object_name(metadata["name"]), "annotations": metadata["annotations"], "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def object_name(text: str) -> str:
    """As names of objects may be written."""
    return text.replace("/", "-").lower()


def _template(pod: Json) -> Json:
    metadata = pod["metadata"]
    labels = {**metadata["labels"], "lab.pilotage/set": metadata["name"]}
    return {"metadata": {"labels": labels, "annotations": metadata["annotations"]}, "spec": pod["spec"]}


def _named(pod: Json) -> Json:
    return {"name": pod["metadata"]["name"], "labels": {LABEL: pod["metadata"]["labels"][LABEL]}}


def _as_job(pod: Json) -> Json:
    spec = {"template": _template(pod), "backoffLimit": 0}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named(pod), "spec": spec}


def _as_deployment(pods: list[Json], arrival: float, settings: LoadSettings) -> tuple[float, str, Json]:
    template = _template(pods[0])
    template["spec"] = {**template["spec"], "restartPolicy": "Always"}
    chosen = {"matchLabels": {"lab.pilotage/set": pods[0]["metadata"]["name"]}}
    spec = {"replicas": len(pods), "selector": chosen, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(pods[0]), "spec": spec}
    return arrival, COLLECTIONS["Deployment"].format(settings.namespace), made


def priority_class(priority: int) -> str:
    return f"pilotage-priority-{'minus-' if priority < 0 else ''}{abs(priority)}"


async def create(
    client: Client,
    workload: Workload,
    settings: LoadSettings,
    clock: Clock,
    progress: Progress = lambda done, total: None,
) -> int:
    """Makes what the trace describes; the number of objects."""
    await ensure_namespace(client, settings.namespace, clock)
    for priority in sorted({shape.priority for shape in workload.shapes} - {0}):
        body = {"metadata": {"name": priority_class(priority)}, "value": priority}
        await ensure(client, "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    made = list(objects(workload, settings))
    sizes = {object_name(gang.name): gang.size for gang in workload.gangs}
    if sizes and await describe_gangs(client, sizes, settings.namespace, {LABEL: settings.name}):
        made = [(arrival, path, in_group(body)) for arrival, path, body in made]
    began = clock.now()

    async def one(entry: tuple[float, str, Json]) -> None:
        arrival, path, body = entry
        if settings.speed > 0:
            await asyncio.sleep(max(0.0, (arrival - made[0][0]) / settings.speed - (clock.now() - began)))
        await client.create(path, body)

    await for_each(made, one, progress, 1 if settings.in_order else AT_ONCE)
    return len(made)


async def until_settled(client: Client, settings: LoadSettings, pods: int, clock: Clock) -> tuple[int, int]:
    """Returns when a scheduler has looked at every pod: bound and refused ones."""
    found = await watching.until_settled(client, settings.namespace, pods, clock, label=(LABEL, settings.name))
    return len(found.bound), len(found.refused)


async def clean(client: Client, settings: LoadSettings, clock: Clock) -> int:
    """Takes away what it made, and returns when it is gone: the number of pods."""
    paths = [path.format(settings.namespace) for path in COLLECTIONS.values()]
    groups = await native_form(client)
    if groups is not None:
        paths.append(groups.path_in(settings.namespace))
    first = fewest = await _count_pods(client, settings)
    progress_at = clock.now()
    while True:
        for path in paths:
            await _delete_all(client, path, settings)
        left = await _count_pods(client, settings)
        if not left:
            return first
        if left < fewest:
            fewest, progress_at = left, clock.now()
        if clock.now() > progress_at + GONE_SECONDS:
            raise InputError(
                f"{left} pods are still there after {GONE_SECONDS:g} s", expected="pods that no finalizer keeps"
            )
        await asyncio.sleep(POLL_SECONDS)


async def _count_pods(client: Client, settings: LoadSettings) -> int:
    pods, _ = await client.list_all(COLLECTIONS["Pod"].format(settings.namespace), labelSelector=chosen(settings))
    return len(pods)


async def _delete_all(client: Client, path: str, settings: LoadSettings) -> None:
    """Or some of them: for many thousands the server takes longer than a request may last. At once: there is nothing in
    these pods that could end gracefully, and each would be written twice more and wait for kwok."""
    try:
        await client.delete(
            path, labelSelector=chosen(settings), propagationPolicy="Background", gracePeriodSeconds="0"
        )
    except UnreachableError:
        return
    except KubeError as error:
        if error.status != TOO_LONG:
            raise


def chosen(settings: LoadSettings) -> str:
    return f"{LABEL}={settings.name}"
