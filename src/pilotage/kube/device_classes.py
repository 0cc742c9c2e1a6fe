"""Device classes that stand behind extended resources: a node without a device plugin then has them by DRA."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pilotage.kube.client import Json
from pilotage.kube.keeping import name_of
from pilotage.model.cluster import Node
from pilotage.workloads.podspec import WHOLE_DEVICES

PATH = "/apis/resource.k8s.io/v1/deviceclasses"
IMPLICIT = "deviceclass.resource.kubernetes.io/"  # and the name of a class: a resource that it always stands behind


@dataclass
class DeviceClasses:
    """Told by a follower."""

    on_change: Callable[[str], None] = lambda why: None
    resources: dict[str, str] = field(default_factory=dict)  # spec.extendedResourceName by class; "" = none

    def behind(self, names: Iterable[str]) -> tuple[str, str] | None:
        """The first of these resources that a class stands behind, and that class."""
        for name in names:
            if name.startswith(IMPLICIT):
                return name, name.removeprefix(IMPLICIT)
            for known, resource in self.resources.items():
                if resource == name:
                    return name, known
        return None

    def put(self, found: Json) -> None:
        name, resource = name_of(found), str((found.get("spec") or {}).get("extendedResourceName") or "")
        before = self.resources.get(name, "")
        self.resources[name] = resource
        if before != resource:
            self.on_change("device class changed")

    def drop(self, name: str) -> None:
        if self.resources.pop(name):
            self.on_change("device class changed")


def offered(resource: str, nodes: Iterable[Node]) -> bool:
    """Whether a node has any of it the ordinary way, by a device plugin."""
    if resource in WHOLE_DEVICES:
        return any(node.gpu_count for node in nodes)
    return any(name == resource for node in nodes for name, _ in node.extended)
