"""Advice as a page: what an adviser's policies would have done, beside what was done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilotage.dashboard.journalled import JournalSource
from pilotage.dashboard.source import Decision, Explained, Judgement, Overview
from pilotage.model.clock import Clock
from pilotage.policies import journal as journals
from pilotage.scheduler.advising import Adviser, Row


@dataclass
class AdviceSource(JournalSource):
    """A Source. The decisions are those of the cluster's own schedulers, the adviser is the shadow."""

    adviser: Adviser | None = None

    @classmethod
    def of(cls, adviser: Adviser, clock: Clock) -> AdviceSource:
        return cls(adviser.cache, adviser.journal, clock, adviser.client.access.server, adviser=adviser)

    def overview(self) -> Overview:
        profiles = self.adviser.profiles.values() if self.adviser is not None else ()
        shadow = ", ".join(dict.fromkeys(policy.name for policy in profiles))
        return replace(super().overview(), shadow=shadow)

    def _figures(self) -> dict[str, float]:
        rows = [self._row(found) for found in self.journal.newest()]
        agreed = sum(row.same for row in rows if row is not None)
        return {"Shadow agrees, %, last 100 pods": round(100 * agreed / len(rows), 1)} if rows else {}

    def _row(self, found: journals.Decision) -> Row | None:
        """Written together with the journal, so they end together."""
        rows, back = (self.adviser.rows if self.adviser is not None else ()), self.journal.added - found.number + 1
        return rows[-back] if back <= len(rows) else None

    def _shown(self, found: journals.Decision) -> Decision:
        row, shown = self._row(found), super()._shown(found)
        if row is None:
            return shown
        since = self._seen.get(found.uid)
        waited = max(0.0, found.time - since) if since is not None else None
        return replace(
            shown, policy="", node=row.actual_node, devices="", message="", advised=found.node, waited=waited
        )

    def _explained(self, found: journals.Decision) -> Explained:
        row, shown = self._row(found), self._shown(found)
        rank = row.actual_rank if row is not None else 0
        said = Judgement(
            found.policy, found.node, found.why, found.best, found.candidates, found.reasons, rank, shadow=True
        )
        return Explained(shown, f"{shown.profile} put it on {shown.node}", (), (said,))
