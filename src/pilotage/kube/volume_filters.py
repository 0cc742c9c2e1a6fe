"""Filters of volumes, with kube-scheduler's semantics: those in use, limits of CSI drivers, where volumes are.

Only volumes that are bound are decided about; for others `missing` says why the pod cannot be placed now.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.pod_rules import ELSEWHERE
from pilotage.kube.podview import PodView
from pilotage.kube.storage import Volume
from pilotage.model.workload import BoolArray

IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
DISK = "node(s) had no available disk"
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
VOLUME_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_ZONE = "node(s) had no available volume zone"


def missing(pod: PodView, cache: ClusterCache) -> str:
    """Why the pod's claims cannot be used now, in kube-scheduler's words where it has them; "" when they all can."""
    if not cache.volumes.followed and pod.rules.volumes.all_claims:
        claim = pod.rules.volumes.all_claims[0]
        return f"claims the volume {claim!r}, and this scheduler may not see claims{ELSEWHERE}"
    found = (_missing_claim(pod, name, cache) for name in pod.rules.volumes.all_claims)
    return next((why for why in found if why), "")


def _missing_claim(pod: PodView, name: str, cache: ClusterCache) -> str:
    own = name in pod.rules.volumes.own
    claim = cache.volumes.claims.get((pod.namespace, name))
    if claim is None:
        if own:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if own and claim.owner != pod.uid:
        return f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
    if not claim.bound:
        return f"claims the volume {name!r}, which is not bound yet, and this scheduler binds no volumes{ELSEWHERE}"
    return "" if claim.volume in cache.volumes.volumes else f'persistentvolume "{claim.volume}" not found'


def by_volumes(pod: PodView, cache: ClusterCache) -> list[tuple[str, BoolArray]]:
    """In the order in which kube-scheduler asks."""
    everybody_N = np.ones(len(cache.state.nodes), np.bool_)
    why = missing(pod, cache)
    if why:
        return [(why, everybody_N)]
    taken: list[tuple[str, BoolArray]] = []
    if pod.rules.volumes.disks:
        taken.append((DISK, _disk_in_use(pod, cache)))
    if _in_use(pod, cache):
        taken.append((IN_USE, everybody_N))
    taken.append((TOO_MANY_VOLUMES, _beyond_limits(pod, cache)))
    bound = _bound(pod, cache)
    for volume in bound:
        if volume.where.terms:
            taken.append((VOLUME_AFFINITY, ~cache.facts.selected(volume.where)))
    for volume in bound:
        if volume.topology:
            taken.append((VOLUME_ZONE, cache.facts.beyond(volume.topology)))
    return taken


def _bound(pod: PodView, cache: ClusterCache) -> list[Volume]:
    found = (cache.volumes.bound((pod.namespace, name)) for name in pod.rules.volumes.all_claims)
    return [volume for volume in found if volume is not None]


def _in_use(pod: PodView, cache: ClusterCache) -> bool:
    """Whether a claim that is for one pod alone has one, wherever that is."""
    keys = ((pod.namespace, name) for name in pod.rules.volumes.claims)
    return any(key in cache.neighbours.mounts.users for key in keys if cache.volumes.claims[key].one_pod)


def _disk_in_use(pod: PodView, cache: ClusterCache) -> BoolArray:
    out_N = np.zeros(len(cache.state.nodes), np.bool_)
    for node, users in cache.neighbours.mounts.disks.items():
        n = cache.neighbours.number(node)
        used = [disk for disks in users.values() for disk in disks]
        if n >= 0 and any(one.conflicts(other) for one in pod.rules.volumes.disks for other in used):
            out_N[n] = True
    return out_N


def _beyond_limits(pod: PodView, cache: ClusterCache) -> BoolArray:
    """Nodes that could not attach the pod's volumes beside those that they have. Shared ones are attached once."""
    volumes, out_N = cache.volumes, np.zeros(len(cache.state.nodes), np.bool_)
    new = set(volumes.identities((pod.namespace, name) for name in pod.rules.volumes.all_claims))
    new |= {disk.attached_as for disk in pod.rules.volumes.disks if disk.attached_as is not None}
    for driver, most in Counter(driver for driver, _ in new).items():
        for node, limit in volumes.limits.get(driver, {}).items():
            n = cache.neighbours.number(node)
            if n < 0 or volumes.attached(node).drivers[driver] + most <= limit:
                continue  # most pods on most nodes
            attached = volumes.attached(node)
            here = sum(one not in attached.by_pods for one in new if one[0] == driver)
            if here and attached.drivers[driver] + here > limit:
                out_N[n] = True
    return out_N
