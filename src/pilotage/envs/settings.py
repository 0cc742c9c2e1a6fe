"""What an environment is: its nodes, its pods, and what counts as better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from numbers import Integral, Real
from sys import float_info
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
        """The environment as it is registered, with some fields changed. A trace brings its own number of nodes.

        One number of nodes is the fewest and the most.
        """
        if environment not in DEFAULTS:
            raise UnknownNameError("environment", environment, DEFAULTS)
        known = {entry.name for entry in fields(cls)} - {"environment"}
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting", name, known)
        if _is_whole(changes.get("nodes")):
            changes = changes | {"nodes": (changes["nodes"],) * 2}
        trace = changes.get("workload")
        if isinstance(trace, Trace):
            own = {"nodes": (len(trace.nodes),) * 2, "pods_per_node": len(trace.workload) / len(trace.nodes)}
            changes = own | changes
        return replace(DEFAULTS[environment], **changes)

    def __post_init__(self) -> None:
        self._check_nodes()
        wanted = f"a positive number, in all at most {MOST_PODS} pods"
        self._check_number("pods_per_node", float_info.min, MOST_PODS / self.nodes[1], wanted)
        for name in ("node_changes", "traffic", "fluctuation"):
            self._check_number(name, 0, 1, "a number from 0 to 1")
        self._check_number("penalty", 0, float_info.max, "a number from 0 on")
        self._check_objectives()
        if not isinstance(self.workload, Trace) and self.workload not in WORKLOADS:
            raise UnknownNameError("workload", str(self.workload), WORKLOADS)

    def _check_nodes(self) -> None:
        pair = self.nodes
        numbers = isinstance(pair, tuple | list) and len(pair) == 2 and all(map(_is_whole, pair))
        if not (numbers and 1 <= pair[0] <= pair[1] <= MOST_NODES):
            wanted = f"fewest and most, from 1 to {MOST_NODES}"
            raise InputError(f"bad numbers {pair!r}", field="nodes", expected=wanted)

    def _check_number(self, name: str, least: float, most: float, wanted: str) -> None:
        value = getattr(self, name)
        if not (isinstance(value, Real) and least <= float(value) <= most):
            raise InputError(f"bad value {value!r}", field=name, expected=wanted)

    def _check_objectives(self) -> None:
        if not isinstance(self.objectives, Mapping):
            raise InputError(f"bad value {self.objectives!r}", field="objectives", expected="weights by name")
        for name, weight in self.objectives.items():
            if name not in OBJECTIVES:
                raise UnknownNameError("objective", str(name), OBJECTIVES)
            if not (isinstance(weight, Real) and isfinite(weight)):
                raise InputError(f"bad weight {weight!r}", field=name, expected="a finite number")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


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


def parse_nodes(text: str) -> tuple[int, int]:
    """Fewest and most nodes from a text such as 10 or 3-50."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text.strip())
    if found is None:
        raise InputError(
            f"cannot read {text!r}", field="--nodes", expected="a number such as 10, or a range such as 3-50"
        )
    return int(found[1]), int(found[2] or found[1])
