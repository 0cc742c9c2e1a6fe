"""What the page asks about pods, from the cache that every source has."""

from __future__ import annotations

from pilotage.dashboard.source import OnNode, PendingPod
from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView, gpu_index
from pilotage.policies.explain import request_text

GATED = "has scheduling gates"


def pending_of(cache: ClusterCache) -> list[PendingPod]:
    """Pods that wait, those behind gates included."""
    found = [_pending(pod, pod.problem or pod.condition) for pod in cache.waiting()]
    gated = (pod for pod in cache.pods.values() if pod.gated and not pod.node and not pod.deleting)
    return found + [_pending(pod, GATED) for pod in gated]


def _pending(pod: PodView, reason: str) -> PendingPod:
    return PendingPod(pod.uid, pod.key, pod.scheduler, request_text(pod.shape), pod.created, reason)


def pods_on(cache: ClusterCache, node: str) -> list[OnNode] | None:
    cache.refresh()  # also when no page has asked for the tables yet
    n = cache.state.index.get(node)
    if n is None:
        return None
    placed = [(uid, placement) for uid, placement in cache.state.placements() if placement.node == n]
    views = [(cache.pods[uid], placement) for uid, placement in placed if uid in cache.pods]
    return sorted(
        (OnNode(pod.key, pod.scheduler, request_text(pod.shape), gpu_index(p.devices)) for pod, p in views),
        key=lambda found: found.pod,
    )
