"""Scores of a pod on one cluster: the service's own view of it, or a caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kernels.features import random_unit
from pilotage.kube.cache import ClusterCache
from pilotage.kube.mixture import Mixture
from pilotage.kube.podview import PodView
from pilotage.kube.readying import Readying
from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.policies.choose import total_scores
from pilotage.policies.kept_rows import KeptRows, ShapeRow
from pilotage.serving.offered import Offered


@dataclass(frozen=True)
class Verdict:
    """Of one pod on all nodes of the cluster."""

    policy: Policy
    row: ShapeRow
    draw: float

    def of(self, nodes: IntArray) -> FloatArray:
        """Totals of some nodes, normalised over them alone: candidates of others do not count."""
        raw_N = self.row.row.raw_N[nodes]
        return total_scores(raw_N[None], self.policy.normalise == "minmax")


@dataclass
class Scoring:
    """Policies prepared for one cluster, and their kept scores."""

    cache: ClusterCache
    offered: Callable[[], Offered]
    given: WorkloadMix | None = None
    seed: int = 0
    asked: int = 0
    _ready: dict[str, Policy] = field(default_factory=dict)
    _edition: int = -1

    def __post_init__(self) -> None:
        self.rows = KeptRows(self.cache)
        self.mixture, self.readying = Mixture(self.cache, self.given), Readying()
        self._mix: WorkloadMix | None = None

    def verdict(self, pod: PodView, name: str | None) -> Verdict:
        """What a policy says of the pod on every node."""
        self.cache.refresh()
        key, policy = self._policy(name)
        draw = random_unit(self.seed, self.asked)
        self.asked += 1
        row = self.rows.row(key, pod.shape)
        self.rows.refresh(policy, row, draw, pod.rules.latency)
        return Verdict(policy, row, draw)

    def _policy(self, name: str | None) -> tuple[str, Policy]:
        """Under which name the operator offers it, and as it is ready for this cluster."""
        offered = self.offered()
        if self._edition != offered.edition:
            self._edition, self._ready = offered.edition, {}
            self.rows.clear()
        if self.cache.state.nodes and self.mixture.moved():
            mix = self._mix = self.mixture.take()
            self._ready = {key: self.readying.ready(key, offered.policies[key], mix) for key in self._ready}
            self.rows.clear()
        for key, ready in self.readying.finished().items():
            if key in self._ready:
                self._ready[key] = ready
                self.rows.clear()
        key = offered.key(name)
        if key not in self._ready:
            self._ready[key] = self._first(key, offered)
        return key, self._ready[key]

    def _first(self, key: str, offered: Offered) -> Policy:
        """A policy that rehearses begins as it was made ready at the start: all requests share one event loop."""
        policy = offered.policies[key]
        if self._mix is None:
            return policy
        if key in offered.warm and getattr(policy, "takes_long", False):
            self.readying.begin(key, policy, offered.warm[key])
        return self.readying.ready(key, policy, self._mix)
