"""What a pod asks of other pods and of its node beyond resources: host ports, spread, affinity, volumes, features.

Rules about nodes alone (selectors, node affinity, taints) are part of the shape, see pilotage.workloads.affinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pilotage.kube.client import Json
from pilotage.kube.pod_volumes import NO_VOLUMES, PodVolumes, read_volumes
from pilotage.model.constraints import Operator, Requirement

Port = tuple[str, str, int]  # address, protocol, number

ANY_ADDRESS = "0.0.0.0"  # noqa: S104
LATENCY_SOFT, LATENCY_HARD = "pilotage.dev/latency-soft", "pilotage.dev/latency-hard"
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s)")
RESTARTS_ALL = "RestartAllContainers"
ELSEWHERE = ": let kube-scheduler place the pod, with the extender"


@dataclass(frozen=True, slots=True)
class Selector:
    """Of labels. Without requirements everything matches; None in its place matches nothing."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint."""

    key: str
    max_skew: int
    required: bool  # False: a wish
    selector: Selector | None
    min_domains: int
    honour_affinity: bool
    honour_taints: bool


@dataclass(frozen=True, slots=True)
class Term:
    """Pods to be near to, or far from."""

    key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None
    weight: int = 0  # of a wish; 0 = required

    def selects(self, labels: Mapping[str, str], namespace: str, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespaces.get(namespace, {}))


@dataclass(frozen=True, slots=True)
class PodRules:
    """All of it."""

    ports: tuple[Port, ...] = ()
    spread: tuple[Spread, ...] = ()
    near: tuple[Term, ...] = ()
    far: tuple[Term, ...] = ()
    near_wishes: tuple[Term, ...] = ()
    far_wishes: tuple[Term, ...] = ()
    node_wishes: tuple[tuple[int, Selector], ...] = ()  # weight and what the node's labels should be
    latency: tuple[float, float] = (0.0, 0.0)  # seconds: soft and hard limit, 0 = none
    volumes: PodVolumes = NO_VOLUMES
    features: tuple[str, ...] = ()  # that its node must declare
    problem: str = ""  # what cannot be read
    undecided: str = ""  # what this scheduler never decides about, and what to do

    @property
    def look_for_others(self) -> bool:
        """Whether it may fit after another pod got a node: one it wants to be near, or one that evens out a spread."""
        return bool(self.near) or any(constraint.required for constraint in self.spread)


NO_RULES = PodRules()


def read_rules(spec: Json, metadata: Json) -> PodRules:
    affinity = spec.get("affinity") or {}
    ports, features = _ports(spec), _features(spec)
    latency, problem = _limits(metadata.get("annotations") or {})
    volumes, unknown = read_volumes(spec, metadata.get("name") or "") if spec.get("volumes") else (NO_VOLUMES, "")
    undecided = _undecided(spec, unknown)
    if not (
        ports
        or problem
        or undecided
        or features
        or volumes is not NO_VOLUMES
        or affinity
        or any(latency)
        or spec.get("topologySpreadConstraints")
    ):
        return NO_RULES
    namespace, labels = metadata["namespace"], metadata.get("labels") or {}
    near, near_wishes = _terms(affinity.get("podAffinity") or {}, namespace, labels)
    far, far_wishes = _terms(affinity.get("podAntiAffinity") or {}, namespace, labels)
    rules = PodRules(
        ports=ports,
        spread=tuple(_spread(entry, labels) for entry in spec.get("topologySpreadConstraints") or ()),
        near=near,
        far=far,
        near_wishes=near_wishes,
        far_wishes=far_wishes,
        node_wishes=_liked_nodes(affinity.get("nodeAffinity") or {}),
        latency=latency,
        volumes=volumes,
        features=features,
        problem=problem,
        undecided=undecided,
    )
    return NO_RULES if rules == NO_RULES else rules


def _limits(annotations: Mapping[str, str]) -> tuple[tuple[float, float], str]:
    """Soft and hard limit of latency in seconds, and what is wrong with them."""
    seconds = []
    for key in (LATENCY_SOFT, LATENCY_HARD):
        match = _DURATION.fullmatch(annotations.get(key, "0s"))
        if match is None:
            return (0.0, 0.0), f"{key} is {annotations[key][:40]!r}; expected a duration such as 20ms or 0.5s"
        seconds.append(float(match[1]) / (1000 if match[2] == "ms" else 1))
    return (seconds[0], seconds[1]), ""


def _ports(spec: Json) -> tuple[Port, ...]:
    running = [*(spec.get("containers") or ())]
    running += [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return tuple(
        (entry.get("hostIP") or ANY_ADDRESS, entry.get("protocol") or "TCP", entry["hostPort"])
        for container in running
        for entry in container.get("ports") or ()
        if entry.get("hostPort")
    )


def ports_conflict(one: Port, other: Port) -> bool:
    """The same port and protocol on the same address, or on any."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in (one[0], other[0]))


def _undecided(spec: Json, unknown: str) -> str:
    if spec.get("resourceClaims"):
        names = ", ".join(repr(claim.get("name")) for claim in spec["resourceClaims"])
        return f"claims devices (DRA) as {names}, which this scheduler does not allocate{ELSEWHERE}"
    return f"uses a {unknown} volume, which this scheduler does not decide about{ELSEWHERE}" if unknown else ""


def _features(spec: Json) -> tuple[str, ...]:
    """As Kubernetes 1.36 infers them; kubelets say in status.declaredFeatures which they have."""
    found = []
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    if any(rule.get("action") == RESTARTS_ALL for one in containers for rule in one.get("restartPolicyRules") or ()):
        found.append("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        found.append("UserNamespacesHostNetworkSupport")
    return tuple(found)


def read_selector(entry: Json | None) -> Selector | None:
    """None (nothing) for a selector that is missing."""
    if entry is None:
        return None
    equal = [Requirement(key, "In", (value,)) for key, value in sorted((entry.get("matchLabels") or {}).items())]
    return Selector((*equal, *read_expressions(entry)))


def read_expressions(entry: Json, key: str = "matchExpressions") -> tuple[Requirement, ...]:
    return tuple(
        Requirement(e["key"], cast(Operator, e["operator"]), tuple(e.get("values") or ())) for e in entry.get(key) or ()
    )


def _with_label_keys(selector: Selector | None, entry: Json, labels: Mapping[str, str]) -> Selector | None:
    """matchLabelKeys: the pod's own values of these labels; mismatchLabelKeys: any others."""
    if selector is None:
        return None
    keys: list[tuple[str, Any]] = [(key, "In") for key in entry.get("matchLabelKeys") or ()]
    keys += [(key, "NotIn") for key in entry.get("mismatchLabelKeys") or ()]
    added = tuple(Requirement(key, operator, (labels[key],)) for key, operator in keys if key in labels)
    return Selector(selector.requirements + tuple(r for r in added if r not in selector.requirements))


def _spread(entry: Json, labels: Mapping[str, str]) -> Spread:
    return Spread(
        key=entry["topologyKey"],
        max_skew=entry["maxSkew"],
        required=entry["whenUnsatisfiable"] == "DoNotSchedule",
        selector=_with_label_keys(read_selector(entry.get("labelSelector")), entry, labels),
        min_domains=entry.get("minDomains") or 1,
        honour_affinity=(entry.get("nodeAffinityPolicy") or "Honor") == "Honor",
        honour_taints=(entry.get("nodeTaintsPolicy") or "Ignore") == "Honor",
    )


def _terms(entry: Json, namespace: str, labels: Mapping[str, str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    required = [
        _term(term, namespace, labels) for term in entry.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    wishes = [
        _term(wish["podAffinityTerm"], namespace, labels, wish["weight"])
        for wish in entry.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    return tuple(required), tuple(wishes)


def _liked_nodes(entry: Json) -> tuple[tuple[int, Selector], ...]:
    """Preferred node affinity. A preference without expressions is about no node, and left out."""
    return tuple(
        (wish["weight"], Selector(read_expressions(wish["preference"])))
        for wish in entry.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if wish["preference"].get("matchExpressions")
    )


def _term(entry: Json, namespace: str, labels: Mapping[str, str], weight: int = 0) -> Term:
    named, chosen = frozenset(entry.get("namespaces") or ()), read_selector(entry.get("namespaceSelector"))
    if not named and chosen is None:
        named = frozenset((namespace,))
    selector = _with_label_keys(read_selector(entry.get("labelSelector")), entry, labels)
    return Term(entry["topologyKey"], selector, named, chosen, weight)
