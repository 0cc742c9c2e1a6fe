"""What an environment is: its nodes, its pods, and what counts as better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Final, Literal

from pilotage.kernels.env_figures import OBJECTIVES
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.workloads.generate import SHIPPED
from pilotage.workloads.trace import Trace

Environment = Literal["packing", "balance", "load"]
MOST_NODES, MOST_PODS = 100_000, 10_000_000
WORKLOADS: Final = ("uniform", "mixed", *SHIPPED)


@dataclass(frozen=True)
class EnvSettings:
    """The defaults are those of the balance environment; `EnvSettings.of` has those of every environment."""

    environment: Environment = "balance"
    """Names the environment; what it does is in the other fields."""
    nodes: tuple[int, int] = (10, 10)
    """Fewest and most nodes of an episode; drawn anew for each."""
    pods_per_node: float = 15.0
    """Pods of an episode / its nodes."""
    workload: str | Trace = "uniform"
    """`uniform` or `mixed` pods on workers of 64 CPU, a shipped trace by name, or any trace with its nodes."""
    objectives: Mapping[str, float] = field(default_factory=lambda: {"balance": 1000.0})
    """Weights of what the reward is the change of; each objective is better the higher it is."""
    node_changes: float = 0.0
    """Chance, per decision, that a node leaves, or that one comes (back)."""
    penalty: float = 1.0
    """Taken off for an action that names a node without room; the pod is not placed."""
    traffic: float = 0.0
    """Mean load that all pods of an episode cause, as a share of what a node can carry; 0 = loads are all 0."""
    fluctuation: float = 0.5
    """By how much, at the most, a measured load differs from what the node carries in the long run."""

    @classmethod
    def of(cls, environment: str, **changes: Any) -> EnvSettings:
        """The environment as it is registered, with some fields changed. A trace brings its own number of nodes."""
        if environment not in DEFAULTS:
            raise UnknownNameError("environment", environment, DEFAULTS)
        trace = changes.get("workload")
        if isinstance(trace, Trace):
            own = {"nodes": (len(trace.nodes),) * 2, "pods_per_node": len(trace.workload) / len(trace.nodes)}
            changes = own | changes
        return replace(DEFAULTS[environment], **changes)

    def __post_init__(self) -> None:
        fewest, most = self.nodes
        if not 1 <= fewest <= most <= MOST_NODES:
            wanted = f"fewest and most, from 1 to {MOST_NODES}"
            raise InputError(f"bad numbers {self.nodes}", field="nodes", expected=wanted)
        if not 0 < self.pods_per_node * most <= MOST_PODS:
            raise InputError(f"bad value {self.pods_per_node}", field="pods_per_node", expected="a positive number")
        for name in ("node_changes", "traffic", "fluctuation"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"bad value {getattr(self, name)}", field=name, expected="a number from 0 to 1")
        if not (isfinite(self.penalty) and self.penalty >= 0):
            raise InputError(f"bad value {self.penalty}", field="penalty", expected="a number from 0 on")
        for name, weight in self.objectives.items():
            if name not in OBJECTIVES:
                raise UnknownNameError("objective", name, OBJECTIVES)
            if not isfinite(weight):
                raise InputError(f"bad weight {weight}", field=name, expected="a finite number")
        if isinstance(self.workload, str) and self.workload not in WORKLOADS:
            raise UnknownNameError("workload", self.workload, WORKLOADS)


DEFAULTS: Final[Mapping[str, EnvSettings]] = {
    "packing": EnvSettings(
        environment="packing",
        nodes=(20, 20),
        pods_per_node=9.0,
        workload="openb-like",
        objectives={"gpu_allocation": 20.0, "fragmentation": 20.0},
    ),
    "balance": EnvSettings(),
    "load": EnvSettings(environment="load", workload="mixed", objectives={"load": 20.0}, traffic=0.5),
}
