"""Gangs as the cluster describes them: how many pods a group needs.

The native PodGroup where the API serves it, else the two that came before it; which, is found by discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.kube.podview import VOLCANO_GROUP
from pilotage.workloads.podsets import GROUP_LABELS

NATIVE: Final = "scheduling.k8s.io"
COSCHEDULING: Final = "scheduling.x-k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"

# Group, the versions known, newest first, and where the number of pods stands in the object.
FORMS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (NATIVE, ("v1beta1", "v1alpha2"), ("spec", "schedulingPolicy", "gang", "minCount")),
    (COSCHEDULING, ("v1alpha1",), ("spec", "minMember")),
    (VOLCANO, ("v1beta1",), ("spec", "minMember")),
)
MOST_PODS = 100_000


@dataclass
class PodGroups:
    """How many pods each group needs, by namespace and name; one per form that is served."""

    on_change: Callable[[str, str], None] = lambda namespace, group: None
    _wanted: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _seconds: dict[tuple[str, str], float] = field(default_factory=dict)  # time-outs that groups state

    def wanted(self, namespace: str, group: str) -> int | None:
        """None for a group that nobody has described (yet)."""
        for form, _, _ in FORMS:
            found = self._wanted.get((form, namespace, group))
            if found is not None:
                return found
        return None

    def timeout(self, namespace: str, group: str) -> float | None:
        """Seconds that the group itself gives its pods to come together."""
        return self._seconds.get((namespace, group))

    def set(self, form: str, namespace: str, name: str, count: int | None, seconds: object = None) -> None:
        """None pods: the group is gone. `seconds` is the time-out that it states, where it does."""
        key = (form, namespace, name)
        before = self._wanted.get(key), self._seconds.get((namespace, name))
        self._wanted.pop(key, None)
        self._seconds.pop((namespace, name), None)
        if count is not None:
            self._wanted[key] = count
            if isinstance(seconds, int) and seconds > 0:
                self._seconds[namespace, name] = float(seconds)
        if before != (self._wanted.get(key), self._seconds.get((namespace, name))):
            self.on_change(namespace, name)

    def names(self, form: str) -> list[tuple[str, str]]:
        return [(namespace, name) for known, namespace, name in self._wanted if known == form]


@dataclass
class GroupFollower:
    """Of the PodGroups of one form."""

    groups: PodGroups
    form: str
    path: tuple[str, ...]

    def listed(self, objects: list[Json]) -> None:
        there = {(found["metadata"]["namespace"], found["metadata"]["name"]) for found in objects}
        for namespace, name in self.groups.names(self.form):
            if (namespace, name) not in there:
                self.groups.set(self.form, namespace, name, None)
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        metadata = found["metadata"]
        seconds = (found.get("spec") or {}).get("scheduleTimeoutSeconds")
        self.groups.set(self.form, metadata["namespace"], metadata["name"], self._count(found), seconds)

    def deleted(self, last: Json) -> None:
        self.groups.set(self.form, last["metadata"]["namespace"], last["metadata"]["name"], None)

    def _count(self, found: Json) -> int:
        """1 for a group that asks for no gang: its pods are placed one by one."""
        value: object = found
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        return min(value, MOST_PODS) if isinstance(value, int) and value > 0 else 1


@dataclass(frozen=True)
class GroupForm:
    """A kind of PodGroup that is served: its API group, the path of all of them, and where the count stands."""

    api_group: str
    path: str  # /apis/GROUP/VERSION/podgroups
    count: tuple[str, ...]

    def path_in(self, namespace: str) -> str:
        return self.path.replace("/podgroups", f"/namespaces/{namespace}/podgroups")

    def group(self, name: str, pods: int, labels: Mapping[str, str]) -> Json:
        body: Json = {"kind": "PodGroup", "metadata": {"name": name, "labels": dict(labels)}}
        body["apiVersion"] = "/".join(self.path.split("/")[2:4])
        place = body
        for key in self.count[:-1]:
            place = place.setdefault(key, {})
        place[self.count[-1]] = pods
        return body

    def member(self, manifest: Json, name: str) -> Json:
        """The pod as a member of a group."""
        metadata, spec = manifest["metadata"], manifest["spec"]
        if self.api_group == NATIVE:
            return {**manifest, "spec": {**spec, "schedulingGroup": {"podGroupName": name}}}
        if self.api_group == COSCHEDULING:
            labels = {**(metadata.get("labels") or {}), GROUP_LABELS[0]: name}
            return {**manifest, "metadata": {**metadata, "labels": labels}}
        annotations = {**(metadata.get("annotations") or {}), VOLCANO_GROUP: name}
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}


async def served_forms(client: Client) -> list[GroupForm]:
    """The forms that the API server has, the native one before all others. The only place that looks."""
    found = []
    for group, versions, count in FORMS:
        served = {entry["version"] for entry in await _discovered(client, f"/apis/{group}", "versions")}
        for version in (one for one in versions if one in served):
            resources = await _discovered(client, f"/apis/{group}/{version}", "resources")
            if any(resource.get("name") == "podgroups" for resource in resources):
                found.append(GroupForm(group, f"/apis/{group}/{version}/podgroups", count))
                break
    return found


async def _discovered(client: Client, path: str, key: str) -> list[Json]:
    """Nothing where there is nothing, or we may not see it."""
    try:
        found: list[Json] = (await client.get(path)).get(key) or []
    except KubeError as error:
        if error.status in (403, 404):
            return []
        raise
    return found
