"""Advice only: what would have been decided, next to what the cluster's own scheduler did. Nothing is written.

A pod is decided about in the moment in which its binding is seen, on the cluster as it was just before: the same pods
in the same places that the other scheduler had before it. So each difference is one of judgement, and differences do
not add up; what a policy makes of a whole workload is told by `pilotage record` and `pilotage compare`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields

from pilotage.kube.cache import ClusterCache, Listener
from pilotage.kube.client import Client
from pilotage.kube.mixture import Mixture
from pilotage.kube.podgroups import PodGroups
from pilotage.kube.podview import PodView, gpu_index
from pilotage.kube.readying import Readying, prepare
from pilotage.kube.watch import running
from pilotage.model.clock import Clock, timestamp
from pilotage.model.outcome import Scheduled, Unschedulable
from pilotage.policies.api import Policy
from pilotage.policies.journal import Attempt, Journal
from pilotage.scheduler.cycle import Advice, Cycle
from pilotage.scheduler.following import Follow
from pilotage.scheduler.metrics import AdviceMetrics
from pilotage.scheduler.run import Settings

ROWS_KEPT = 200_000  # of the table; counts go on


@dataclass(frozen=True, slots=True)
class Row:
    """One pod: what was advised and what was done. The columns of the table."""

    time: str
    namespace: str
    pod: str
    uid: str
    scheduler: str
    policy: str
    cpu_milli: int
    memory_bytes: int
    gpu_milli: int
    gpu_count: int
    advised_node: str  # empty: it would have waited
    advised_devices: str
    actual_node: str
    same: bool
    candidates: int
    actual_rank: int  # of the node it went to, among the candidates; 1 = the best. 0: it is none
    advised_total: float | None
    actual_total: float | None
    why: str


COLUMNS = tuple(column.name for column in fields(Row))
_TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool, "float | None": float}
SCHEMA = {column.name: _TYPES[str(column.type)] for column in fields(Row)}  # also for a table without rows


@dataclass
class Adviser:
    """Follows a cluster and compares."""

    client: Client
    profiles: Mapping[str, Policy]  # by the schedulerName of the pods that are looked at
    clock: Clock
    settings: Settings = field(default_factory=Settings)
    on_problem: Callable[[str], None] = lambda text: None
    rows: deque[Row] = field(default_factory=lambda: deque(maxlen=ROWS_KEPT))

    def __post_init__(self) -> None:
        self.journal = Journal()
        self.cache = ClusterCache(Listener(before_bound=self._before_bound), self.on_problem, pool=self.settings.pool)
        self.cycle = Cycle(self.cache, dict(self.profiles), self.settings.seed)
        self.mixture, self.readying = Mixture(self.cache, self.settings.mix), Readying(self.on_problem)
        self.synced = asyncio.Event()
        self.metrics = AdviceMetrics()
        self.metrics.overcommitted.set_function(lambda: self.cache.overcommitted)
        self._counts: Counter[str] = Counter()
        self._rank_sum = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Only lists and watches."""
        informers = await Follow(self.client, self.cache, PodGroups(), on_fault=self.on_problem).informers()
        async with running(informers, stop):
            self.synced.set()
            await stop.wait()

    def missing(self) -> str:
        """What keeps it from advising, "" for nothing."""
        return "" if self.synced.is_set() else "the state of the cluster has not been read yet"

    def _before_bound(self, pod: PodView, node: str) -> None:
        if pod.scheduler not in self.profiles:
            return
        prepare(self.cycle, self.mixture, self.readying, self.profiles)
        advice = self.cycle.advise(pod, node)
        moment = self.clock.wall()
        policy = self.profiles[pod.scheduler].name
        instance = self.settings.instance
        attempt = Attempt(moment.timestamp(), instance, pod.scheduler, policy, pod.uid, pod.key, pod.shape, pod.group)
        decision = self.journal.add(attempt, advice.outcome)
        self.rows.append(_row(timestamp(moment), pod, policy, node, advice, decision.why))
        self._count(pod.scheduler, advice, node)

    def _count(self, profile: str, advice: Advice, node: str) -> None:
        outcome = advice.outcome
        kind = "same" if isinstance(outcome, Scheduled) and outcome.node == node else "elsewhere"
        if not isinstance(outcome, Scheduled):
            kind = "would_wait" if isinstance(outcome, Unschedulable) else "failed"
        self._counts[kind] += 1
        self.metrics.advised.labels(kind, profile).inc()
        if advice.rank:
            self._counts["ranked"] += 1
            self._rank_sum += advice.rank
        elif kind == "elsewhere":
            self._counts["actual_not_a_candidate"] += 1

    def report(self) -> dict[str, float]:
        """The difference in figures. Pods that wait now are decided about, too: some of them would have a node."""
        counts = self._counts
        compared = sum(counts[kind] for kind in ("same", "elsewhere", "would_wait", "failed"))
        ranked = counts["ranked"]
        waiting = [pod for pod in self.cache.waiting() if pod.scheduler in self.profiles]
        prepare(self.cycle, self.mixture, self.readying, self.profiles)
        would_place = sum(isinstance(self.cycle.advise(pod, "").outcome, Scheduled) for pod in waiting)
        return {
            "pods": compared,
            "same_node": counts["same"],
            "other_node": counts["elsewhere"],
            "would_wait": counts["would_wait"],
            "failed": counts["failed"],
            "actual_not_a_candidate": counts["actual_not_a_candidate"],
            "same_percent": 100.0 * counts["same"] / compared if compared else 0.0,
            "mean_rank_of_actual": self._rank_sum / ranked if ranked else 0.0,
            "waiting_now": len(waiting),
            "waiting_that_would_be_placed": would_place,
            "overcommitted": self.cache.overcommitted,
        }

    def table(self) -> list[dict[str, object]]:
        """Rows, the newest last."""
        return [asdict(row) for row in self.rows]


def _row(moment: str, pod: PodView, policy: str, node: str, advice: Advice, why: str) -> Row:
    outcome, shape = advice.outcome, pod.shape
    advised = outcome if isinstance(outcome, Scheduled) else Scheduled("")
    return Row(
        time=moment,
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        scheduler=pod.scheduler,
        policy=policy,
        cpu_milli=shape.cpu_milli,
        memory_bytes=shape.memory_bytes,
        gpu_milli=shape.gpu_milli,
        gpu_count=shape.gpu_count,
        advised_node=advised.node,
        advised_devices=gpu_index(advised.devices),
        actual_node=node,
        same=advised.node == node,
        candidates=advised.choice.candidates,
        actual_rank=advice.rank,
        advised_total=advised.choice.best[0][1] if advised.choice.best else None,
        actual_total=advice.total,
        why=why,
    )
