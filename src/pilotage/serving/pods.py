"""Pods from requests, as placements see them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import msgspec

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import LATENCY_HARD, LATENCY_SOFT, PodRules
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.constraints import Constraints, Toleration
from pilotage.model.workload import PodShape
from pilotage.serving.problems import invalid
from pilotage.serving.wire import PodObject, WholePodObject
from pilotage.workloads.podspec import CARD_MODEL, SHARE_COUNT, SHARE_MILLI

# The caller has filtered: what it offers is allowed, whatever selectors and taints say.
FILTERED = Constraints(tolerations=(Toleration(operator="Exists"),))

REQUESTS_KEPT = 10_000  # pods of one controller ask for the same
LONGEST_KEPT = 4096  # bytes
_ANNOTATIONS = (SHARE_MILLI, SHARE_COUNT, CARD_MODEL, LATENCY_SOFT, LATENCY_HARD)


def offered_pod(pod: PodObject) -> PodView:
    """For which the caller has found candidates: what it asks for counts, where it may go is settled."""
    metadata, spec = pod.metadata, msgspec.json.encode(pod.spec)
    given = metadata.annotations or {}
    read = _read if len(spec) <= LONGEST_KEPT else _read.__wrapped__
    shape, rules, problem = read(spec, tuple((key, given[key]) for key in _ANNOTATIONS if key in given))
    return PodView(metadata.uid, metadata.namespace, metadata.name, shape, rules=rules, problem=problem)


@lru_cache(REQUESTS_KEPT)
def _read(spec: bytes, annotations: tuple[tuple[str, str], ...]) -> tuple[PodShape, PodRules, str]:
    metadata = {"uid": "", "namespace": "", "name": "", "annotations": dict(annotations)}
    view = read_pod(_written({"metadata": metadata, "spec": msgspec.json.decode(spec)}))
    return replace(view.shape, constraints=FILTERED), PodRules(latency=view.rules.latency), view.problem


def whole_pod(pod: WholePodObject) -> PodView:
    """With all its rules, for an answer that nobody filters any more."""
    return read_pod(_written(msgspec.to_builtins(pod)))


def expect_readable(pod: PodView) -> None:
    if pod.problem:
        raise invalid(f"pod: {pod.problem}")


def _written(pod: Json) -> Json:
    """As the API server would have it."""
    pod["spec"] = {key: value for key, value in pod["spec"].items() if value is not None}
    pod["metadata"] |= {"creationTimestamp": "1970-01-01T00:00:00Z", "resourceVersion": ""}
    return pod
