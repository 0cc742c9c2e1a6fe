"""What travels: bodies of requests and answers, as types. Decoding checks them; OpenAPI is written from them.

Extender types have the Go field names as they are (extender/v1), ours are in camel case.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from pilotage.serving.wire_rules import Affinity, DeviceClaim, PodVolume, SpreadConstraint, Texts, Toleration

MAX_CANDIDATES = 20_000
MAX_AMOUNT = 2**56
MAX_GENERATION = 2**63 - 1
NODES_KEPT = 50_000  # of a session

# Names that become part of a path of the API server. A `$` alone would let a line break through.
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
Namespace = Annotated[str, Meta(min_length=1, max_length=63, pattern=rf"^{_LABEL}$(?!\n)")]
ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*$(?!\n)")]
NodeName = Annotated[str, Meta(min_length=1, max_length=253)]
Amount = Annotated[int, Meta(ge=0, le=MAX_AMOUNT)]
Generation = Annotated[int, Meta(ge=0, le=MAX_GENERATION)]
NodeNumber = Annotated[int, Meta(ge=0, lt=NODES_KEPT)]
Amounts = Annotated[dict[Annotated[str, Meta(max_length=317)], Amount], Meta(max_length=256)]
Quantities = dict[str, str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float]


class Wire(Struct, frozen=True, rename="camel"):
    """Ours. Unknown fields are ignored."""


# Of a Kubernetes pod, what placements may depend on; anything else is skipped while decoding.


class Resources(Wire, frozen=True):
    """Of a container or a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Wire, frozen=True):
    """What it asks for."""

    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class ContainerPort(Wire, frozen=True, omit_defaults=True):
    """A port on the node; others do not matter."""

    host_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    host_ip: Annotated[str, Meta(max_length=64)] | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Metadata(Wire, frozen=True):
    """Of a pod."""

    uid: Annotated[str, Meta(min_length=1, max_length=253)]
    name: Annotated[str, Meta(min_length=1, max_length=253)]
    namespace: Annotated[str, Meta(min_length=1, max_length=253)]
    labels: Texts | None = None
    annotations: Texts | None = None


class PodSpec(Wire, frozen=True):
    """Of a pod for which the caller has found candidates."""

    containers: Annotated[list[Container], Meta(min_length=1, max_length=1000)]
    init_containers: Annotated[list[Container], Meta(max_length=1000)] | None = None
    resources: Resources | None = None
    overhead: Quantities | None = None
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    scheduler_name: str | None = None


class WholePodSpec(PodSpec, frozen=True):
    """Of a pod that nobody has filtered for."""

    node_selector: Texts | None = None
    tolerations: list[Toleration] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None
    volumes: Annotated[list[PodVolume], Meta(max_length=1000)] | None = None
    resource_claims: Annotated[list[DeviceClaim], Meta(max_length=1000)] | None = None


class PodObject(Wire, frozen=True):
    """A pod as the API server has it."""

    metadata: Metadata
    spec: PodSpec


class WholePodObject(Wire, frozen=True):
    """A pod as the API server has it, with its rules."""

    metadata: Metadata
    spec: WholePodSpec


# POST /v1/score, /v1/suggest


class NodeAmounts(Wire, frozen=True):
    """Resources as kube-scheduler's framework holds them."""

    cpu_milli: Amount = 0
    memory_bytes: Amount = 0
    ephemeral_storage_bytes: Amount = 0
    pods: Amount = 0
    extended: Amounts = {}


class ScoredAmounts(Wire, frozen=True):
    """CPU and memory in use as kube-scheduler counts them for scores."""

    cpu_milli: Amount = 0
    memory_bytes: Amount = 0


class GpuPod(Wire, frozen=True):
    """A pod with a share of GPUs, as its annotations have it: one that no device can have counts for nothing."""

    milli: Amount = 1000
    count: Amount = 1
    index: str = ""


class NodeState(Wire, frozen=True):
    """A node as the caller's snapshot has it."""

    allocatable: NodeAmounts
    requested: NodeAmounts = NodeAmounts()
    scored: ScoredAmounts | None = None
    gpu_pods: Annotated[list[GpuPod], Meta(max_length=10_000)] = []
    labels: Annotated[
        dict[Annotated[str, Meta(max_length=317)], Annotated[str, Meta(max_length=253)]], Meta(max_length=256)
    ] = {}
    address: str = ""


class Candidate(Wire, frozen=True, gc=False):
    """A node that the caller may choose."""

    name: NodeName
    generation: Generation | None = None
    state: NodeState | None = None


class ToldNode(Wire, frozen=True, gc=False):
    """A node of which there is news, and its number in this session from now on."""

    number: NodeNumber
    name: NodeName
    generation: Generation
    state: NodeState


class NumberedCandidates(Wire, frozen=True):
    """Nodes that the caller may choose, as two columns of whole numbers: base64, the lowest byte of a number first.

    Names and states travel when they are news alone.
    """

    numbers: Annotated[bytes, Meta(min_length=4, max_length=4 * MAX_CANDIDATES)]  # 32 bits each
    generations: Annotated[bytes, Meta(min_length=8, max_length=8 * MAX_CANDIDATES)]  # 64 bits each, in the same order
    told: Annotated[list[ToldNode], Meta(max_length=MAX_CANDIDATES)] = []


Candidates = Annotated[list[Candidate], Meta(min_length=1, max_length=MAX_CANDIDATES)]
Deadline = Annotated[int, Meta(ge=1, le=10_000)]
PolicyName = Annotated[str, Meta(min_length=1, max_length=253)]
Session = Annotated[str, Meta(min_length=1, max_length=128)]
Score = Annotated[int, Meta(ge=0, le=100)]


class ScoreRequest(Wire, frozen=True):
    """Score these candidates for this pod."""

    api_version: Literal["v1"]
    pod: PodObject
    candidates: Candidates | NumberedCandidates
    session: Session | None = None
    policy: PolicyName | None = None
    deadline_ms: Deadline = 1000


class ScoreAnswer(Wire, frozen=True, omit_defaults=True):
    """0 to 100 for exactly the candidates of the request: by name, or a byte each in their order."""

    api_version: Literal["v1"]
    uid: str
    policy: str
    scores: dict[str, Score] | bytes  # base64
    asked: Annotated[int, Meta(ge=0, lt=2**32)] | None = None  # CRC-32 of the numbers as they came, where they did


class SuggestRequest(Wire, frozen=True):
    """Which node for this pod? Without candidates: of all that the service knows."""

    api_version: Literal["v1"]
    pod: WholePodObject
    candidates: Candidates | None = None
    session: Session | None = None
    policy: PolicyName | None = None
    deadline_ms: Deadline = 1000


class Suggested(Wire, frozen=True):
    """One of the best candidates."""

    node: str
    total: float
    scores: dict[str, list[float]]  # by part of the policy: as given, and as weighed


class SuggestAnswer(Wire, frozen=True):
    """The best node, or none, and why."""

    api_version: Literal["v1"]
    uid: str
    policy: str
    node: str | None
    gpu_index: str  # devices as the annotation gpu-index has them, "" for none
    verdict: str
    filtered: dict[str, int]  # reason -> number of candidates that it takes out
    best: list[Suggested]  # at most five


class Problem(Wire, frozen=True, omit_defaults=True):
    """Every answer that is not 200."""

    reason: str
    message: str
    unknown: list[str | int] | None = None  # names or numbers, as candidates were given


# Extender


class Named(Struct, frozen=True):
    """What is read of a node object."""

    metadata: NamedMetadata


class NamedMetadata(Struct, frozen=True):
    """Its name."""

    name: NodeName


class NodeList(Struct, frozen=True):
    """Node objects, kept as they came."""

    items: Annotated[list[msgspec.Raw], Meta(max_length=MAX_CANDIDATES)] | None = None


class ExtenderArgs(Struct, frozen=True):
    """Of filter and prioritize."""

    Pod: PodObject
    Nodes: NodeList | None = None
    NodeNames: Annotated[list[str], Meta(max_length=MAX_CANDIDATES)] | None = None


class FilterResult(Struct, frozen=True):
    """Who is left, and why others are not."""

    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""


class HostPriority(Struct, frozen=True):
    """A score from 0 to 10."""

    Host: str
    Score: int


class BindingArgs(Struct, frozen=True):
    """Put this pod there."""

    PodName: ObjectName
    PodNamespace: Namespace
    PodUID: Annotated[str, Meta(min_length=1, max_length=253)]
    Node: ObjectName


class BindingResult(Struct, frozen=True):
    """Empty = done."""

    Error: str = ""


class MetaPod(Struct, frozen=True):
    """A victim."""

    UID: str


class MetaVictims(Struct, frozen=True):
    """Victims on one node."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class VictimPod(Struct, frozen=True):
    """A victim, given as an object."""

    metadata: VictimMetadata


class VictimMetadata(Struct, frozen=True):
    """Its uid."""

    uid: str


class Victims(Struct, frozen=True):
    """Victims on one node, given as objects."""

    Pods: list[VictimPod] | None = None
    NumPDBViolations: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class PreemptionArgs(Struct, frozen=True):
    """What kube-scheduler would evict, node by node."""

    Pod: PodObject
    NodeNameToVictims: dict[str, Victims | None] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims | None] | None = None


class PreemptionResult(Struct, frozen=True):
    """Nodes where that would help."""

    NodeNameToMetaVictims: dict[str, MetaVictims]
