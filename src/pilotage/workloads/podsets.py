"""The objects that make pods, each read into a `PodSet`: how many pods, called what, of which shape, from when on.

A Job runs `parallelism` pods at a time until `completions` have run. With a duration the later ones arrive when the
earlier could have ended; without one the earlier never end, so only the first `parallelism` exist.

Times are the annotations `pilotage/duration` and `pilotage/arrival` (seconds), or `alibabacloud.com/creation-time`
(RFC 3339), of the pod or of the object that makes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

from pilotage.model.workload import FOREVER, PodShape
from pilotage.workloads.fields import Field
from pilotage.workloads.podspec import read_shape

DURATION = "pilotage/duration"
ARRIVAL = "pilotage/arrival"
CREATION_TIME = "alibabacloud.com/creation-time"
GROUP_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
DEFAULT_NAMESPACE = "default"

_REPLICATED = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Identity = tuple[str, str, str]  # namespace, kind, name


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that differ only in their names, as one object describes them."""

    place: Field
    identity: Identity
    owner: Identity | None
    shape: PodShape
    priority: int | None
    priority_class: str
    group: str
    duration: float
    arrival: float | None  # seconds
    created: Fraction | None  # seconds since 1970
    numbered: bool = True
    first: int = 0
    count: int = 1
    at_once: int = 0  # of a Job: how many run together; 0 = all

    @property
    def timed(self) -> bool:
        return self.duration != FOREVER or self.arrival is not None or self.created is not None

    @property
    def names(self) -> Iterator[str]:
        name = qualified(self.identity[0], self.identity[2])
        if not self.numbered:
            return iter((name,) * self.count)
        return (f"{name}-{index}" for index in range(self.first, self.first + self.count))


def qualified(namespace: str, name: str) -> str:
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"


def read_pod_sets(kind: str, item: Field) -> Iterator[PodSet]:
    """One set, or none of a pod that has finished or a job that is suspended."""
    spec = item.get("spec")
    if kind == "Pod":
        if item.get("status").get("phase").value not in ("Succeeded", "Failed"):
            yield replace(_pod_set(kind, item, item), numbered=False)
    elif kind == "DaemonSet":
        yield replace(_pod_set(kind, item, spec.get("template")), numbered=False)
    elif kind in _REPLICATED:
        first = spec.get("ordinals").get("start").integer(0) if kind == "StatefulSet" else 0
        made = _pod_set(kind, item, spec.get("template"))
        yield replace(made, first=first, count=spec.get("replicas").integer(1))
    elif not spec.get("suspend").boolean():
        job = spec.get("jobTemplate") if kind == "CronJob" else item
        if not job.get("spec").get("suspend").boolean():
            yield _job_set(_pod_set(kind, item, job.get("spec").get("template")), job.get("spec"))


def _job_set(made: PodSet, spec: Field) -> PodSet:
    at_once = spec.get("parallelism").integer(1)
    total = spec.get("completions").integer(at_once)
    count = total if made.duration != FOREVER and at_once else min(at_once, total)
    return replace(made, count=count, at_once=at_once)


def _pod_set(kind: str, item: Field, template: Field) -> PodSet:
    metadata, pod_metadata = item.get("metadata"), template.get("metadata")
    namespace = metadata.get("namespace").name(DEFAULT_NAMESPACE)
    spec, annotations = template.get("spec"), pod_metadata.get("annotations")
    labels = pod_metadata.get("labels").strings()
    priority, duration = spec.get("priority"), _annotation(DURATION, template, item).seconds()
    return PodSet(
        place=metadata.get("name").place,
        identity=(namespace, kind, _object_name(metadata)),
        owner=_owner(metadata, namespace),
        shape=read_shape(spec, annotations),
        priority=priority.integer(low=-(2**31)) if priority.present else None,
        priority_class=spec.get("priorityClassName").text(""),
        group=next((labels[key] for key in GROUP_LABELS if labels.get(key)), ""),
        duration=FOREVER if duration is None else duration,
        arrival=_annotation(ARRIVAL, template, item).seconds(),
        created=_timestamp(_annotation(CREATION_TIME, template, item)),
    )


def _object_name(metadata: Field) -> str:
    if not metadata.get("name").present and metadata.get("generateName").present:
        raise metadata.get("generateName").error("makes a random name", "metadata.name")
    return metadata.get("name").name()


def _owner(metadata: Field, namespace: str) -> Identity | None:
    for reference in metadata.get("ownerReferences").elements():
        if reference.get("controller").boolean():
            return namespace, reference.get("kind").text(), reference.get("name").text()
    return None


def _annotation(key: str, *objects: Field) -> Field:
    """The annotation of the first object that has it: of the pod before that of what makes it."""
    found = [entry.get("metadata").get("annotations").get(key) for entry in objects]
    return next((entry for entry in found if entry.present), found[0])


def _timestamp(entry: Field) -> Fraction | None:
    if not entry.present:
        return None
    expected = "a time such as 2023-05-01T12:00:00Z"
    match = _RFC3339.fullmatch(entry.text(expected=expected))
    if match is None:
        raise entry.wrong_kind(expected)
    day, time, digits, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time}{zone.upper()}") - _EPOCH
    except ValueError as error:
        raise entry.error(f"{entry.value!r}: {error}", expected) from error
    return moment.days * 86400 + moment.seconds + Fraction(f"0.{digits or 0}")
