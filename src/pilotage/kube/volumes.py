"""The volumes of a cluster: claims, what they are bound to, where that may be used, and how much a node can attach.

Counts of a node are kept until a pod comes or goes there, or one of its claims, volumes or attachments changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pilotage.kube.client import Json
from pilotage.kube.keeping import name_of, place_of
from pilotage.kube.mounts import Attached, Mounts
from pilotage.kube.pod_volumes import VolumeId
from pilotage.kube.storage import ClaimKey, Volume, VolumeClaim, read_claim, read_volume


class Attachment(NamedTuple):
    """A VolumeAttachment: what is attached, or being attached, whether or not a pod uses it."""

    node: str
    driver: str
    volume: str


@dataclass
class Volumes:
    """Told by followers. `on_change` hears of a claim that pods may wait for; None: of any."""

    mounts: Mounts
    on_change: Callable[[ClaimKey | None], None] = lambda claim: None
    followed: bool = False  # whether anybody keeps this up to date
    claims: dict[ClaimKey, VolumeClaim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    csi_nodes: dict[str, dict[str, int]] = field(default_factory=dict)  # node -> driver -> volumes at most
    limits: dict[str, dict[str, int]] = field(default_factory=dict)  # the same, driver -> node
    attachments: dict[str, Attachment] = field(default_factory=dict)
    _attached: dict[str, set[str]] = field(default_factory=dict)  # names of attachments by node
    _nodes_of: dict[str, Counter[str]] = field(default_factory=dict)  # nodes with attachments, by volume

    # Questions

    def bound(self, claim: ClaimKey) -> Volume | None:
        """None for a claim without a volume that is there."""
        found = self.claims.get(claim)
        return self.volumes.get(found.volume) if found is not None and found.volume else None

    def attached(self, node: str) -> Attached:
        known = self.mounts.counted.get(node)
        if known is None:
            known = self.mounts.counted[node] = self._count(node)
        return known

    def _count(self, node: str) -> Attached:
        by_pods = set(self.identities(self.mounts.on_node.get(node, ())))
        for disks in self.mounts.disks.get(node, {}).values():
            by_pods |= {disk.attached_as for disk in disks if disk.attached_as is not None}
        more = {self._identity(self.attachments[name]) for name in self._attached.get(node, ())} - by_pods
        count = Counter(driver for driver, _ in by_pods)
        count.update(identity[0] for identity in more if identity is not None)
        return Attached(frozenset(by_pods), count)

    def identities(self, claims: Iterable[ClaimKey]) -> Iterable[VolumeId]:
        """Of the volumes behind them that a CSI driver attaches. A claim that is not bound counts for nothing."""
        found = (self.bound(claim) for claim in claims)
        return (one.attached_as for one in found if one is not None and one.attached_as is not None)

    def _identity(self, attachment: Attachment) -> VolumeId | None:
        volume = self.volumes.get(attachment.volume)
        if volume is None or volume.attached_as is None or volume.migrated:
            return None
        return attachment.driver, volume.attached_as[1]

    # News

    def put_claim(self, found: Json) -> None:
        key, claim = place_of(found), read_claim(found)
        if self.claims.get(key) != claim:
            self.claims[key] = claim
            self._claim_changed(key)

    def drop_claim(self, key: ClaimKey) -> None:
        del self.claims[key]
        self._claim_changed(key)

    def _claim_changed(self, key: ClaimKey) -> None:
        self._count_again(self.mounts.users.get(key, ()))
        self.on_change(key)

    def put_volume(self, found: Json) -> None:
        name, volume = name_of(found), read_volume(found)
        before = self.volumes.get(name)
        if before != volume:
            self.volumes[name] = volume
            self._volume_changed(name, before, volume)

    def drop_volume(self, name: str) -> None:
        self._volume_changed(name, self.volumes.pop(name), None)

    def _volume_changed(self, name: str, before: Volume | None, now: Volume | None) -> None:
        self._count_again(self._nodes_of.get(name, ()))
        for claim in {one.claim for one in (before, now) if one is not None and one.claim is not None}:
            self._claim_changed(claim)

    def put_csi_node(self, found: Json) -> None:
        """Drivers without a count have no limit."""
        name = name_of(found)
        drivers = (found.get("spec") or {}).get("drivers") or ()
        offers = ((driver["name"], (driver.get("allocatable") or {}).get("count")) for driver in drivers)
        self._set_limits(name, {driver: count for driver, count in offers if count is not None})

    def drop_csi_node(self, name: str) -> None:
        self._set_limits(name, {})
        del self.csi_nodes[name]
        self._count_again((name,))  # nobody asks for it any more

    def _set_limits(self, node: str, limits: Mapping[str, int]) -> None:
        before = self.csi_nodes.get(node)
        self.csi_nodes[node] = dict(limits)
        if before == limits:
            return
        for driver in before or ():
            del self.limits[driver][node]
            if not self.limits[driver]:
                del self.limits[driver]
        for driver, count in limits.items():
            self.limits.setdefault(driver, {})[node] = count
        self.on_change(None)

    def put_attachment(self, found: Json) -> None:
        name, spec = name_of(found), found["spec"]
        volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
        attachment = Attachment(spec["nodeName"], spec.get("attacher") or "", volume)
        if self.attachments.get(name) == attachment:
            return
        if name in self.attachments:
            self.drop_attachment(name)
        if attachment.driver and volume:
            self.attachments[name] = attachment
            self._attached.setdefault(attachment.node, set()).add(name)
            self._nodes_of.setdefault(volume, Counter())[attachment.node] += 1
            self._count_again((attachment.node,))

    def drop_attachment(self, name: str) -> None:
        node, _, volume = self.attachments.pop(name)
        self._attached[node].discard(name)
        if not self._attached[node]:
            del self._attached[node]
        there = self._nodes_of[volume]
        there[node] -= 1
        if there[node] <= 0:
            del there[node]
        if not there:
            del self._nodes_of[volume]
        self._count_again((node,))
        self.on_change(None)

    def _count_again(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.mounts.counted.pop(node, None)
