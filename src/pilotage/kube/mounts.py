"""Which volumes the pods on nodes use. Pods without any cost nothing here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pilotage.kube.pod_volumes import NO_VOLUMES, Disk, VolumeId
from pilotage.kube.podview import PodView
from pilotage.kube.storage import ClaimKey

Key = TypeVar("Key")
What = TypeVar("What")


class Attached(NamedTuple):
    """What CSI drivers have to attach to a node."""

    by_pods: frozenset[VolumeId]
    drivers: Counter[str]  # how many of each, with what is attached though no pod uses it


@dataclass
class Mounts:
    """By claim and by node, assumed pods included."""

    users: dict[ClaimKey, Counter[str]] = field(default_factory=dict)  # pods by node
    on_node: dict[str, Counter[ClaimKey]] = field(default_factory=dict)
    disks: dict[str, dict[str, tuple[Disk, ...]]] = field(default_factory=dict)  # by node and uid
    counted: dict[str, Attached] = field(default_factory=dict)  # by node, until something changes there
    _where: dict[str, tuple[PodView, str]] = field(default_factory=dict)

    def add(self, pod: PodView, node: str) -> None:
        volumes = pod.rules.volumes
        if volumes is NO_VOLUMES:
            return
        self._where[pod.uid] = pod, node
        self.counted.pop(node, None)
        for name in volumes.all_claims:
            key = pod.namespace, name
            self.users.setdefault(key, Counter())[node] += 1
            self.on_node.setdefault(node, Counter())[key] += 1
        if volumes.disks:
            self.disks.setdefault(node, {})[pod.uid] = volumes.disks

    def remove(self, uid: str) -> None:
        pod, node = self._where.pop(uid, (None, ""))
        if pod is None:
            return
        self.counted.pop(node, None)
        for name in pod.rules.volumes.all_claims:
            key = pod.namespace, name
            _take_one(self.users, key, node)
            _take_one(self.on_node, node, key)
        if pod.rules.volumes.disks:
            there = self.disks[node]
            del there[uid]
            if not there:
                del self.disks[node]


def _take_one(counts: dict[Key, Counter[What]], key: Key, what: What) -> None:
    there = counts[key]
    there[what] -= 1
    if not there[what]:
        del there[what]
        if not there:
            del counts[key]
