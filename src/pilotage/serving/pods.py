"""Pods from requests, as placements see them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import PodRules
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.constraints import Constraints, Toleration
from pilotage.serving.problems import invalid
from pilotage.serving.wire import PodObject

# The caller has filtered: what it offers is allowed, whatever selectors and taints say.
FILTERED = Constraints(tolerations=(Toleration(operator="Exists"),))
_FILTERS = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def offered_pod(pod: PodObject) -> PodView:
    """For which the caller has found candidates: what it asks for counts, where it may go is settled."""
    written = _written(pod)
    for key in _FILTERS:
        written["spec"].pop(key, None)
    view = read_pod(written)
    return replace(view, shape=replace(view.shape, constraints=FILTERED), rules=PodRules(latency=view.rules.latency))


def whole_pod(pod: PodObject) -> PodView:
    """With all its rules, for an answer that nobody filters any more."""
    try:
        return read_pod(_written(pod))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Rules about other pods come checked from an API server; here anybody may have written them.
        raise invalid(f"pod.spec: its rules cannot be read ({type(error).__name__}: {error})") from error


def expect_readable(pod: PodView) -> None:
    if pod.problem:
        raise invalid(f"pod: {pod.problem}")


def _written(pod: PodObject) -> Json:
    written: Json = msgspec.to_builtins(pod)
    written["spec"] = {key: value for key, value in written["spec"].items() if value is not None}
    written["metadata"] |= {"creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": ""}
    return written
