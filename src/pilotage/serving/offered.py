"""The policies that a service offers, by name; read again when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pilotage.model.errors import InputError
from pilotage.policies.api import Policy
from pilotage.policies.registry import find_policy
from pilotage.serving.problems import RefusedError


@dataclass(frozen=True)
class Offered:
    """One reading of them; the first is the default. Callers name them as the operator did, or by their own names."""

    policies: dict[str, Policy]  # by what the operator wrote
    edition: int = 0  # counts readings
    warm: dict[str, Policy] = field(default_factory=dict)  # made ready once: what new clusters begin with

    @classmethod
    def read(cls, texts: Sequence[str], edition: int = 0) -> Offered:
        if len(set(texts)) < len(texts) or not texts:
            raise InputError("no policy, or one twice", field="--policy", expected="each policy once")
        found = {text: find_policy(text) for text in texts}
        names = [policy.name for policy in found.values()]
        for name in names:
            if names.count(name) > 1:  # callers name them so, and answers say so who has scored
                same = " and ".join(text for text, policy in found.items() if policy.name == name)
                raise InputError(f"{same} are both called {name}", field="--policy", expected="names that differ")
        return cls(found, edition)

    @property
    def default(self) -> str:
        return next(iter(self.policies))

    def key(self, name: str | None) -> str:
        """Which of them a caller means."""
        if name is None:
            return self.default
        if name in self.policies:
            return name
        for text, policy in self.policies.items():
            if name in (policy.name, policy.name.rpartition("@")[0]):
                return text
        raise RefusedError(
            400, "unknown-policy", f"policy {name[:100]!r} is not offered; offered: {', '.join(self.names)}"
        )

    @property
    def names(self) -> list[str]:
        return [policy.name for policy in self.policies.values()]
