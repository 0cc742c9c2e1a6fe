"""Why a pod is not decided about at all: what cannot be read, what is left to others, what is not there."""

from __future__ import annotations

from pilotage.kube.cache import ClusterCache
from pilotage.kube.device_classes import offered
from pilotage.kube.pod_rules import ELSEWHERE, NO_RULES
from pilotage.kube.podview import PodView
from pilotage.kube.volume_filters import missing


def undecided(pod: PodView, cache: ClusterCache) -> str:
    """ "" for a pod that is decided about: nearly all, so nothing here may take long."""
    if pod.problem:
        return pod.problem
    if pod.rules is not NO_RULES:
        why = pod.rules.undecided or missing(pod, cache)
        if why:
            return why
    behind = cache.device_classes.behind(pod.extended) if pod.extended else None
    if behind is None or offered(behind[0], cache.state.nodes):
        return ""
    return _allocated(*behind)


def beside_plugins(pod: PodView, cache: ClusterCache) -> str:
    """Of a pod that fits on no node with a device plugin: what else there is for it; "" for nothing."""
    behind = cache.device_classes.behind(pod.extended) if pod.extended else None
    return _allocated(*behind) if behind is not None else ""


def _allocated(resource: str, name: str) -> str:
    return f"asks for {resource} of the device class {name!r} (DRA), which this scheduler does not allocate{ELSEWHERE}"
