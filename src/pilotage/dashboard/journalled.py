"""The source inside a process that decides: its cache, and its journal with every decision and why."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.dashboard.cached import pending_of, pods_on
from pilotage.dashboard.source import Decision, Explained, Judgement, NodeTable, OnNode, Overview, PendingPod
from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView
from pilotage.model.clock import Clock
from pilotage.policies import journal as journals

SEEN_KEPT = 50_000  # pods whose arrival is remembered
PROBLEM_SECONDS = 15.0


@dataclass
class JournalSource:
    """A Source."""

    cache: ClusterCache
    journal: journals.Journal
    clock: Clock
    title: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)  # by schedulerName
    _seen: OrderedDict[str, float] = field(default_factory=OrderedDict)  # since when a pod waits, by uid
    _problem: tuple[float, str] = (float("-inf"), "")

    def __post_init__(self) -> None:
        listener = self.cache.listener
        told = listener.pod_waits

        def pod_waits(pod: PodView) -> None:
            self._see(pod)
            told(pod)

        listener.pod_waits = pod_waits

    def _see(self, pod: PodView) -> None:
        self._seen.setdefault(pod.uid, self.clock.wall().timestamp())
        while len(self._seen) > SEEN_KEPT:
            self._seen.popitem(last=False)

    def note_problem(self, text: str) -> None:
        """Shown for a while."""
        self._problem = self.clock.now(), text

    def overview(self) -> Overview:
        when, text = self._problem
        problem = text if self.clock.now() - when < PROBLEM_SECONDS else ""
        return Overview(self.title, problem=problem, policies=self.policies, figures=self._figures())

    def _figures(self) -> dict[str, float]:
        """What policies gave the nodes that they chose: their own measure of what they do."""
        scores = [found.score for found in self.journal.newest() if found.score is not None and found.node]
        return {"Score of chosen nodes, last 100 pods": round(sum(scores) / len(scores), 4)} if scores else {}

    def nodes(self) -> NodeTable:
        return NodeTable.of(self.cache)

    def pods_on(self, node: str) -> Sequence[OnNode] | None:
        return pods_on(self.cache, node)

    def pending(self) -> Sequence[PendingPod]:
        return pending_of(self.cache)

    def decisions(self, after: int) -> Sequence[Decision]:
        found = self.journal.newest(self.journal.added - after, after) if self.journal.added > after else []
        return [self._shown(decision) for decision in reversed(found)]

    def explain(self, number: int) -> Explained | None:
        for found in self.journal.newest(self.journal.added - number + 1, number - 1):
            if found.number == number:
                return self._explained(found)
        return None

    def _shown(self, found: journals.Decision) -> Decision:
        since = self._seen.get(found.uid)
        return Decision(
            number=found.number,
            time=found.time,
            pod=found.pod,
            profile=found.profile,
            policy=found.policy,
            request=found.request,
            node=found.node,
            devices="-".join(map(str, found.devices)),
            message="" if found.node else found.why,
            waited=max(0.0, found.time - since) if since is not None and found.node else None,
        )

    def _explained(self, found: journals.Decision) -> Explained:
        judgement = Judgement(found.policy, found.node, found.why, found.best, found.candidates, found.reasons)
        facts = [("Decided in", f"{1000 * found.seconds:.2f} ms of processor time"), ("By", found.instance)]
        if found.gang:
            facts.append(("Gang", found.gang))
        if found.victims:
            facts.append(("Told to go", ", ".join(found.victims)))
        return Explained(self._shown(found), found.why, (), (judgement,), tuple(facts))
