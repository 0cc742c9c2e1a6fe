"""Telling pods to go: for others of higher priority, or because their gang never came together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pilotage.kube.binding import Binder
from pilotage.kube.cache import ClusterCache
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.lease import NotLeadingError
from pilotage.kube.podview import PodView
from pilotage.model.outcome import Unschedulable
from pilotage.scheduler.metrics import Metrics
from pilotage.scheduler.preemption import Plan, Preemption
from pilotage.scheduler.reporting import Reports

NO_HELP = "preemption: no pods of lower priority whose leaving would help"


@dataclass
class RoomMaker:
    """Plans at once, writes in tasks."""

    preemption: Preemption
    binder: Binder
    reports: Reports
    metrics: Metrics
    on_problem: Callable[[str], None] = lambda text: None
    enabled: bool = True

    @property
    def cache(self) -> ClusterCache:
        return self.preemption.cache

    def consider(
        self, pods: Sequence[PodView], wanted: int, refused: Unschedulable
    ) -> tuple[Unschedulable, tuple[PodView, ...]]:
        """Whether others go for these pods, which do not fit: the refusal with a note on it, and who goes."""
        leaving = [self.cache.claims.node_of(pod.uid) for pod in pods if self.preemption.under_way(pod)]
        if not self.enabled or not all(self.preemption.possible(pod) for pod in pods):
            if not leaving:
                self._withdraw(pods)
            return refused, ()
        if leaving:
            return _with_note(refused, f"preemption: waits for pods to leave {leaving[0]}"), ()
        plan = self.preemption.plan(pods, wanted)
        self.metrics.preemption_attempts.inc()
        if plan is None:
            self._withdraw(pods)
            return _with_note(refused, NO_HELP), ()
        for pod in pods:
            if pod.uid in plan.places:
                self.cache.claims.set(pod, *plan.places[pod.uid])
        self.metrics.preemption_victims.observe(len(plan.victims))
        self._mark(plan.victims)
        self.reports.tasks.start(self._carry_out(plan, {pod.uid: pod for pod in pods}))
        nodes = ", ".join(sorted({node for node, _ in plan.places.values()}))
        whole = f", gang {', '.join(plan.gangs)} whole" if plan.gangs else ""
        return _with_note(
            refused, f"preemption: {len(plan.victims)} pods are told to leave {nodes}{whole}"
        ), plan.victims

    def release(self, gang: str, pods: Sequence[PodView], seconds: float) -> str:
        """The bound half of a gang goes. What to say of it."""
        why = f"gang {gang!r} did not come together in {seconds:g} s: its {len(pods)} bound pods are released"
        if all(self.preemption.leaves(pod) for pod in pods):
            return why
        self.metrics.released_gangs.inc()
        self.on_problem(why)
        self._mark(pods)
        self.reports.tasks.start(self._told_to_go(pods, why))
        return why

    def _mark(self, victims: Sequence[PodView]) -> None:
        self.preemption.told.update(one.uid for one in victims)

    def _unmark(self, victims: Sequence[PodView]) -> None:
        """They may stay: who plans next must not take them for pods that leave anyway."""
        self.preemption.told.difference_update(one.uid for one in victims)

    async def _carry_out(self, plan: Plan, pods: dict[str, PodView]) -> None:
        """The promise first: a process that takes over in between then knows for whom the room is."""
        lead = next(iter(pods.values()))
        why = f"Preempted by pod {lead.uid} on node {next(iter(plan.places.values()))[0]}"
        try:
            for uid, (node, _) in plan.places.items():
                await self.binder.nominate(pods[uid], node)
            if await self._told_to_go(plan.victims, why):
                return
        except (KubeError, UnreachableError, NotLeadingError) as error:
            self.on_problem(f"preemption for {lead.key}: {error}")
            self._unmark(plan.victims)
        promised = [pods[uid] for uid in plan.places]
        self._drop_claims(promised)
        await self._tell_withdrawn(promised)

    def _withdraw(self, pods: Sequence[PodView]) -> None:
        """What these pods were promised does not help them, and nobody leaves for them: others may have that room."""
        promised = [pod for pod in pods if self.cache.claims.node_of(pod.uid)]
        if promised:
            self._drop_claims(promised)
            self.reports.tasks.start(self._tell_withdrawn(promised))

    def _drop_claims(self, pods: Sequence[PodView]) -> None:
        for pod in pods:
            self.cache.claims.drop(pod.uid)
        self.cache.listener.room_made("claim dropped")

    async def _tell_withdrawn(self, pods: Sequence[PodView]) -> None:
        for pod in pods:
            await self.reports.told(self.binder.nominate(pod, ""))

    async def _told_to_go(self, victims: Sequence[PodView], why: str) -> bool:
        """All of them, those with a budget first: it may say no, and then nobody has gone yet."""
        budgets = self.preemption.budgets
        for number, victim in enumerate(sorted(victims, key=lambda one: not budgets.covering(one))):
            try:
                went = await self.binder.evict(victim, why)
            except (KubeError, UnreachableError, NotLeadingError) as error:
                self.on_problem(f"{victim.key} cannot be told to go ({number} of {len(victims)} were): {error}")
                self._unmark(victims)
                return False
            if not went:
                self.on_problem(f"{victim.key} stays for its disruption budget; {number} of {len(victims)} have gone")
                self._unmark(victims)
                return False
        return True


def _with_note(refused: Unschedulable, note: str) -> Unschedulable:
    return replace(refused, note=note)
