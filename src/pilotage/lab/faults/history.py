"""What happened to pods, in the order of the API server's own versions, seen by somebody who only watches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pilotage.kube.client import Json
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.clock import Clock


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod on a node: from the version that bound it to the one at which it ended or was gone."""

    pod: PodView
    since: int
    until: int | None = None


@dataclass
class History:
    """Follows the pods of one namespace."""

    clock: Clock
    pods: dict[str, PodView] = field(default_factory=dict)  # that are there, by uid
    stays: dict[str, Stay] = field(default_factory=dict)  # of all that were ever bound, by uid
    moved: set[str] = field(default_factory=set)  # bound pods that were seen on another node later
    progress_at: float = 0.0  # when a binding, or a new pod, was last seen

    def listed(self, objects: list[Json]) -> None:
        newest = max((int(found["metadata"]["resourceVersion"]) for found in objects), default=0)
        there = {found["metadata"]["uid"] for found in objects}
        for uid in [uid for uid in self.pods if uid not in there]:
            self._gone(uid, newest)
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        pod = read_pod(found)
        version = int(pod.version)
        known = self.stays.get(pod.uid)
        if pod.uid not in self.pods:
            self.progress_at = self.clock.now()
        self.pods[pod.uid] = pod
        if pod.node and known is None:
            self.stays[pod.uid] = Stay(pod, version)
            self.progress_at = self.clock.now()
        elif known is not None and pod.node != known.pod.node:
            self.moved.add(pod.uid)
        if pod.finished:
            self._end(pod.uid, version)

    def deleted(self, last: Json) -> None:
        self._gone(last["metadata"]["uid"], int(last["metadata"]["resourceVersion"]))

    def _gone(self, uid: str, version: int) -> None:
        self.pods.pop(uid, None)
        self._end(uid, version)

    def _end(self, uid: str, version: int) -> None:
        stay = self.stays.get(uid)
        if stay is not None and stay.until is None:
            self.stays[uid] = replace(stay, until=version)

    @property
    def waiting(self) -> list[PodView]:
        return [pod for pod in self.pods.values() if pod.waits]

    @property
    def bound(self) -> int:
        return len(self.stays)
