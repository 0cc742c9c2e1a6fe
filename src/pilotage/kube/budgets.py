"""PodDisruptionBudgets: how many pods of each may still be told to go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import Selector, read_selector
from pilotage.kube.podview import PodView

PATH = "/apis/policy/v1/poddisruptionbudgets"

BudgetKey = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class Budget:
    """One of them, as its controller last wrote it."""

    selector: Selector | None
    allowed: int  # disruptions
    going: frozenset[str]  # pods whose eviction is already counted


@dataclass
class Budgets:
    """A follower of them all."""

    known: dict[BudgetKey, Budget] = field(default_factory=dict)

    def covering(self, pod: PodView) -> list[BudgetKey]:
        return [
            key
            for key, budget in self.known.items()
            if key[0] == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
        ]

    def broken_by(self, pods: Iterable[PodView]) -> list[BudgetKey]:
        """Budgets that would not stand it if all these pods went."""
        asked: Counter[BudgetKey] = Counter()
        for pod in pods:
            asked.update(key for key in self.covering(pod) if pod.name not in self.known[key].going)
        return [key for key, count in asked.items() if count > self.known[key].allowed]

    def listed(self, objects: list[Json]) -> None:
        self.known.clear()
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        metadata, status = found["metadata"], found.get("status") or {}
        self.known[metadata["namespace"], metadata["name"]] = Budget(
            read_selector((found.get("spec") or {}).get("selector")),
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )

    def deleted(self, last: Json) -> None:
        self.known.pop((last["metadata"]["namespace"], last["metadata"]["name"]), None)
