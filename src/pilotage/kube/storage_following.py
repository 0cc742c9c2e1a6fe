"""Volumes and device classes, followed where we may see them."""

from __future__ import annotations

from collections.abc import Callable

from pilotage.kube.cache import ClusterCache
from pilotage.kube.client import Client
from pilotage.kube.device_classes import PATH as DEVICE_CLASSES
from pilotage.kube.keeping import Keeping, name_of, place_of
from pilotage.kube.watch import Follower, may_list, refusal

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
FORBIDDEN = 403


async def storage_followers(
    client: Client, cache: ClusterCache, told: Callable[[str], None]
) -> list[tuple[str, Follower]]:
    """Paths and who follows them: of volumes all or none, as none can be judged without the others."""
    found = volume_followers(cache)
    unseen = [path.rpartition("/")[2] for path in found if not await may_list(client, path)]
    cache.volumes.followed = not unseen
    if unseen:
        told(f"pods with volume claims are not placed: {', '.join(unseen)} cannot be listed")
        found = {}
    refused = await refusal(client, DEVICE_CLASSES)  # older clusters do not have them
    if refused == FORBIDDEN:
        told("extended resources of device classes are not told apart: deviceclasses cannot be listed")
    elif not refused:
        found[DEVICE_CLASSES] = device_class_follower(cache)
    return list(found.items())


def volume_followers(cache: ClusterCache) -> dict[str, Follower]:
    """By path."""
    volumes = cache.volumes
    return {
        CLAIMS: Keeping(volumes.claims, place_of, volumes.put_claim, volumes.drop_claim),
        VOLUMES: Keeping(volumes.volumes, name_of, volumes.put_volume, volumes.drop_volume),
        CSI_NODES: Keeping(volumes.csi_nodes, name_of, volumes.put_csi_node, volumes.drop_csi_node),
        ATTACHMENTS: Keeping(volumes.attachments, name_of, volumes.put_attachment, volumes.drop_attachment),
    }


def device_class_follower(cache: ClusterCache) -> Follower:
    classes = cache.device_classes
    return Keeping(classes.resources, name_of, classes.put, classes.drop)
