"""The one policy interface.

Letters of array axes, used in the whole project: B decisions, N nodes, D devices of a node, R resources, F features,
K rules of a weighted sum, P pods, S distinct pod shapes, T typical pods, M meters or GPU models, C cache rows,
E node events, G points of a time grid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from pilotage.kernels.choosing import Rules
from pilotage.kernels.devices import DEVICE_RULES, PLAIN_RULES
from pilotage.kernels.features import FEATURES_VERSION, GANG_COLUMNS, NODE_FEATURES, POD_FEATURES, POD_GANG_COLUMNS
from pilotage.model.cluster import ClusterState
from pilotage.model.errors import PilotageError, PolicyError, UnknownNameError
from pilotage.model.workload import BoolArray, FloatArray, IntArray, PodShape, Workload

Scope = Literal["node", "cluster"]
Normalise = Literal["none", "minmax"]
DeviceRule = Literal["best", "worst", "random", "fgd", "priced"]

POLICY_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*@[0-9]+")


@dataclass(frozen=True)
class FeatureSchema:
    """The columns a policy reads. Checked once, when the policy is loaded."""

    pod: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    version: int = FEATURES_VERSION

    @cached_property
    def about_gangs(self) -> bool:
        """Whether a column depends on where the pod's gang is: it changes though the node does not."""
        return bool({*GANG_COLUMNS} & {*self.node} or {*POD_GANG_COLUMNS} & {*self.pod})

    def check(self) -> None:
        if self.version != FEATURES_VERSION:
            raise PolicyError(f"features of version {self.version}; this program has version {FEATURES_VERSION}")
        for wanted, known, kind in ((self.pod, POD_FEATURES, "pod"), (self.node, NODE_FEATURES, "node")):
            for name in wanted:
                if name not in known:
                    raise UnknownNameError(f"{kind} feature", name, known)


@dataclass(frozen=True, slots=True)
class DecisionBatch:
    """Decisions to score, arrays only. Views on encoded state: read, never write."""

    pod_BF: FloatArray
    node_BNF: FloatArray
    device_left_BND: IntArray  # GPU milli left per device
    feasible_BN: BoolArray

    def read_only(self) -> DecisionBatch:
        """The same arrays, as views that refuse to be written to."""
        return DecisionBatch(
            _frozen(self.pod_BF), _frozen(self.node_BNF), _frozen(self.device_left_BND), _frozen(self.feasible_BN)
        )

    def pod(self, name: str) -> FloatArray:
        """One pod column with a node axis to broadcast over: shape (B, 1)."""
        return self.pod_BF[:, _column(name, POD_FEATURES, "pod"), None]

    def node(self, name: str) -> FloatArray:
        """One node column: shape (B, N)."""
        return self.node_BNF[:, :, _column(name, NODE_FEATURES, "node")]


Array = TypeVar("Array", FloatArray, IntArray, BoolArray)


def _frozen(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _column(name: str, known: Sequence[str], kind: str) -> int:
    try:
        return known.index(name)
    except ValueError:
        raise UnknownNameError(f"{kind} feature", name, known) from None


@dataclass(frozen=True, slots=True)
class TypicalPods:
    """How typical pods are found; the defaults are those of the published experiments."""

    popularity_percent: float = 95.0  # take shapes until they stand for this share of the pods; 0 means 60
    step: int = 1  # shapes taken at a time; 0 means 10
    cpu_pods: bool = True  # whether pods without GPU count
    gpu_weight: float = 0.0  # extra weight per whole GPU asked for


class NodeKind(NamedTuple):
    """Nodes that are alike."""

    cpu_milli: int
    memory_bytes: int
    pods: int  # that one of them may have
    gpu_count: int
    gpu_model: str
    nodes: int


@dataclass(frozen=True)
class ClusterSize:
    """Sums over the nodes of a cluster."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpus_M: tuple[int, ...] = ()  # by model, in the order of WorkloadMix.models
    nodes_D: tuple[int, ...] = ()  # nodes with 0, 1, 2, ... devices
    kinds: tuple[NodeKind, ...] = ()

    @classmethod
    def of(cls, state: ClusterState) -> ClusterSize:
        arrays = state.arrays
        by_model = (int(arrays.device_count_N[arrays.model_N == m].sum()) for m in range(len(state.models)))
        cpu, memory = arrays.capacity_NR[:, 0].sum(), arrays.capacity_NR[:, 1].sum()
        nodes_D = np.bincount(arrays.device_count_N).tolist()
        gpus = int(arrays.device_count_N.sum())
        return cls(int(cpu), int(memory), gpus, tuple(by_model), tuple(nodes_D), _kinds_of(state))


def _kinds_of(state: ClusterState) -> tuple[NodeKind, ...]:
    arrays = state.arrays
    columns = (*arrays.capacity_NR[:, :3].T, arrays.device_count_N, arrays.model_N)
    rows = np.column_stack(columns).astype(">i8")  # whose bytes sort as the numbers do
    alike, nodes = np.unique(rows.view("V40").ravel(), return_counts=True)
    return tuple(
        NodeKind(cpu, memory, pods, devices, state.models[model] if model >= 0 else "", number)
        for (cpu, memory, pods, devices, model), number in zip(
            alike.view(">i8").reshape(-1, 5).tolist(), nodes.tolist(), strict=True
        )
    )


@dataclass(frozen=True)
class WorkloadMix:
    """What a workload consists of: distinct shapes and how many pods have each. Order of pods is not part of it."""

    shapes: tuple[PodShape, ...]
    count_S: IntArray
    models: tuple[str, ...] = ()  # GPU models of the cluster, in the order of the feature `gpu_model`
    devices: int = 8  # largest number of devices of a node
    typical: TypicalPods = TypicalPods()  # how typical pods are found
    cluster: ClusterSize = ClusterSize()  # what the mix comes to; a run puts it in

    @classmethod
    def of(cls, workload: Workload, models: tuple[str, ...] = (), devices: int = 8) -> WorkloadMix:
        """The mix of a workload; a run puts in the models and devices of its cluster."""
        count_S = np.bincount(workload.shape_P, minlength=len(workload.shapes)).astype(np.int64)
        return cls(workload.shapes, count_S, models, devices)

    def on(self, state: ClusterState) -> WorkloadMix:
        """The same pods on this cluster."""
        devices = state.arrays.device_left_ND.shape[1]
        return replace(self, models=state.models, devices=devices, cluster=ClusterSize.of(state))

    @cached_property
    def total(self) -> int:
        return int(self.count_S.sum())


class Policy(Protocol):
    """Scores candidates; everything else is done for it."""

    @property
    def name(self) -> str: ...  # "fgd@1": a change of behaviour is a new version
    @property
    def features(self) -> FeatureSchema: ...
    @property
    def scope(self) -> Scope: ...  # node: the score depends on pod and node alone, so it is kept until the node changes
    @property
    def normalise(self) -> Normalise: ...  # over the candidates, by the chooser, before weights

    def prepare(self, mix: WorkloadMix) -> Policy:
        """Once per run, or when the observed mix has moved: typical pods, prices of leftovers."""
        ...

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        """Writes a finite score for every feasible candidate, higher is better; other entries are ignored.

        `device_BN` comes filled with -1 (leave it to the device rule); a policy may name the device that its score
        is for, where the pod asks for a part of one device.
        """
        ...


class CompiledPolicy(Policy, Protocol):
    """Optional ability: runs inside the compiled episode."""

    @property
    def rules(self) -> Rules | None: ...  # None: this one (a sum with a part in plain Python) cannot


def compiled_rules(policy: Policy) -> Rules | None:
    """The policy as kernels understand it, None for a policy in plain Python."""
    rules: Rules | None = getattr(policy, "rules", None)
    return rules


def prepared(policy: Policy, mix: WorkloadMix) -> Policy:
    """`policy.prepare(mix)`; whatever goes wrong in a user's code names the policy."""
    try:
        ready = policy.prepare(mix)
    except PilotageError:
        raise
    except Exception as error:
        raise PolicyError(f"{policy.name}: prepare fails: {type(error).__name__}: {error}") from error
    if not hasattr(ready, "score"):
        raise PolicyError(f"{policy.name}: prepare returns {type(ready).__name__}; expected a policy")
    return ready


def ask(policy: Policy, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
    """`policy.score(...)`. A policy in plain Python gets arrays that it cannot write to: they decide what fits."""
    if hasattr(policy, "rules"):
        policy.score(batch, out_BN, device_BN)
        return
    try:
        policy.score(batch.read_only(), out_BN, device_BN)
    except Exception as error:
        raise PolicyError(f"{policy.name}: score fails: {type(error).__name__}: {error}") from error


def device_rule_of(policy: Policy) -> DeviceRule:
    """Policies may state a device rule; the usual one is `best`. `fgd` needs typical pods: compiled policies only."""
    rule: DeviceRule = getattr(policy, "device_rule", "best")
    known = DEVICE_RULES if hasattr(policy, "rules") else PLAIN_RULES
    if rule not in known:
        raise PolicyError(f"{policy.name}: unknown device rule {rule!r}; known: {', '.join(known)}")
    return rule
