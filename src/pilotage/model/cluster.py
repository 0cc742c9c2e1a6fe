"""What offers resources: nodes, and the state of a cluster as a struct of arrays."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.model.constraints import Taint


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpu_milli: int
    memory_bytes: int
    pods: int = 110
    gpu_count: int = 0
    gpu_model: str = ""
    extended: tuple[tuple[str, int], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()

    @property
    def zone(self) -> str:
        return dict(self.labels).get("topology.kubernetes.io/zone", "")

    @property
    def rack(self) -> str:
        return dict(self.labels).get("topology.kubernetes.io/rack", "")
