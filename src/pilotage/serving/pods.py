"""Pods from requests, as placements see them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import PodRules
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.constraints import Constraints, Toleration
from pilotage.serving.problems import invalid
from pilotage.serving.wire import PodObject, WholePodObject

# The caller has filtered: what it offers is allowed, whatever selectors and taints say.
FILTERED = Constraints(tolerations=(Toleration(operator="Exists"),))


def offered_pod(pod: PodObject) -> PodView:
    """For which the caller has found candidates: what it asks for counts, where it may go is settled."""
    view = read_pod(_written(pod))
    return replace(view, shape=replace(view.shape, constraints=FILTERED), rules=PodRules(latency=view.rules.latency))


def whole_pod(pod: WholePodObject) -> PodView:
    """With all its rules, for an answer that nobody filters any more."""
    return read_pod(_written(pod))


def expect_readable(pod: PodView) -> None:
    if pod.problem:
        raise invalid(f"pod: {pod.problem}")


def _written(pod: PodObject | WholePodObject) -> Json:
    written: Json = msgspec.to_builtins(pod)
    written["spec"] = {key: value for key, value in written["spec"].items() if value is not None}
    written["metadata"] |= {"creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": ""}
    return written
