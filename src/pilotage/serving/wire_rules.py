"""Rules of a pod about nodes and other pods, as they travel to /v1/suggest.

An API server has checked what kube-scheduler and our own scheduler see; here anybody may have written them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Texts = dict[str, str]
Words = Annotated[list[str], Meta(max_length=1000)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Weight = Annotated[int, Meta(ge=1, le=100)]


class Rule(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Unknown fields are ignored, those that are missing stay so."""


class Expression(Rule, frozen=True):
    """Of labels."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Words | None = None


class LabelSelector(Rule, frozen=True):
    """All of it must hold."""

    match_labels: Texts | None = None
    match_expressions: list[Expression] | None = None


class NodeTerm(Rule, frozen=True):
    """All of it must hold."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeTerms(Rule, frozen=True):
    """One of them must hold."""

    node_selector_terms: list[NodeTerm]


class LikedNodes(Rule, frozen=True):
    """A wish."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(Rule, frozen=True):
    """Nodes to be on."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: list[LikedNodes] | None = None


class PodTerm(Rule, frozen=True):
    """Pods to be near to, or far from."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: Words | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: Words | None = None
    mismatch_label_keys: Words | None = None


class LikedPods(Rule, frozen=True):
    """A wish."""

    weight: Weight
    pod_affinity_term: PodTerm


class PodAffinity(Rule, frozen=True):
    """Towards other pods, or away from them."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[LikedPods] | None = None


class Affinity(Rule, frozen=True):
    """All of it."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Rule, frozen=True):
    """How even pods are to be over domains."""

    topology_key: str
    max_skew: Positive
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Positive | None = None
    match_label_keys: Words | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class Toleration(Rule, frozen=True):
    """Of taints."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ClaimSource(Rule, frozen=True):
    """By its name in the pod's namespace."""

    claim_name: str


class OwnClaim(Rule, frozen=True):
    """What kind of claim is made for the pod does not matter here."""


class PodVolume(Rule, frozen=True):
    """Those of other kinds are on every node."""

    name: str
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: OwnClaim | None = None


class DeviceClaim(Rule, frozen=True):
    """Of dynamic resource allocation."""

    name: str
