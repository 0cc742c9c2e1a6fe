"""Which nodes a pod may use for reasons other than resources: selectors, affinity, taints, a fixed node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression of a node selector, with Kubernetes' semantics."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        if self.operator == "NotIn":
            return value is None or value not in self.values
        if value is None:
            return False
        if self.operator == "In":
            return value in self.values
        try:
            number, limit = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > limit if self.operator == "Gt" else number < limit


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty key with Exists tolerates every taint; an empty effect matches every effect."""

    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Which nodes a pod may use, apart from resources. Terms are alternatives; requirements in a term all hold."""

    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""

    def allows(self, name: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
        if self.node_name and name != self.node_name:
            return False
        hard = (taint for taint in taints if taint.effect != "PreferNoSchedule")
        if not all(any(toleration.tolerates(taint) for toleration in self.tolerations) for taint in hard):
            return False
        if not self.terms:
            return True
        fields = {**labels, "metadata.name": name}  # matchFields knows this one field
        return any(all(requirement.matches(fields) for requirement in term) for term in self.terms)


ANYWHERE = Constraints()
