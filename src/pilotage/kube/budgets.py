"""PodDisruptionBudgets: how many pods of each may still be told to go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
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
    on_more: Callable[[str], None] = lambda why: None  # pods may go that had to stay

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
        there = {_key(found) for found in objects}
        for key in [key for key in self.known if key not in there]:
            self._drop(key)
        for found in objects:
            self.changed(found)

    def changed(self, found: Json) -> None:
        key, status = _key(found), found.get("status") or {}
        before = self.known.get(key)
        now = self.known[key] = Budget(
            read_selector((found.get("spec") or {}).get("selector")),
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )
        if before is not None and (now.allowed > before.allowed or now.selector != before.selector):
            self.on_more("budget changed")

    def deleted(self, last: Json) -> None:
        self._drop(_key(last))

    def _drop(self, key: BudgetKey) -> None:
        if self.known.pop(key, None) is not None:
            self.on_more("budget changed")


def _key(found: Json) -> BudgetKey:
    return found["metadata"]["namespace"], found["metadata"]["name"]
