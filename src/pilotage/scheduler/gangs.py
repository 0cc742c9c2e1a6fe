"""Gangs in the queue: whose pods are there, which are complete, and what becomes of one that is bound by halves.

Nothing is held for a gang while it waits, so two gangs cannot block each other by waiting. Halves come about only by a
crash between two bindings: then the rest is placed as soon as it fits. If it does not fit in time, the half that is
bound is released, one gang at a time, so that of two halves that block each other one gets through.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podgroups import PodGroups
from pilotage.kube.podview import PodView
from pilotage.model.clock import Clock, SystemClock
from pilotage.scheduler.gang_columns import NO_GANG, GangAround

WAIT_SECONDS = 600.0
NEWS_SECONDS, NEWS_APART = 1.0, 10.0  # until pods say how many of their gang are there, and between two such times

GangKey = tuple[str, str]  # namespace, group


@dataclass
class Gangs:
    """Looks at the cluster each time: a gang has few pods, and nothing can go out of step."""

    cache: ClusterCache
    groups: PodGroups
    clock: Clock = field(default_factory=SystemClock)
    wait_seconds: float = WAIT_SECONDS
    members: dict[GangKey, set[str]] = field(default_factory=dict)  # uids of pods that are there
    _gang_of: dict[str, GangKey] = field(default_factory=dict)  # by uid: where `members` has it
    _since: dict[GangKey, float] = field(default_factory=dict)  # when it was first found not to be placed
    _told: set[GangKey] = field(default_factory=set)
    _news_at: dict[GangKey, float] = field(default_factory=dict)
    _news_told: dict[GangKey, float] = field(default_factory=dict)

    def add(self, pod: PodView) -> None:
        """A pod as it is now: labels change, and with them the gang that it counts for."""
        key = (pod.namespace, pod.group)
        if self._gang_of.get(pod.uid, key) != key:
            self.remove(pod)
        if pod.group:
            self.members.setdefault(key, set()).add(pod.uid)
            self._gang_of[pod.uid] = key

    def remove(self, pod: PodView) -> None:
        """From the gang that it was last seen in; the others say soon that they are fewer."""
        key = self._gang_of.pop(pod.uid, None)
        if key is None:
            return
        self.members[key].discard(pod.uid)
        if self.members[key]:
            self.expect_news(key)
            return
        del self.members[key]
        self._forget_time(key)
        self._news_at.pop(key, None)
        self._news_told.pop(key, None)

    def wanted(self, pod: PodView) -> int:
        """Pods that must be placed together; 1 for a pod without a gang, 0 for a group that nobody described."""
        if not pod.group:
            return 1
        found = self.groups.wanted(pod.namespace, pod.group)
        return found if found is not None else 0

    def pods(self, pod: PodView) -> list[PodView]:
        """Of its gang, oldest first."""
        return sorted(self._pods((pod.namespace, pod.group)), key=lambda one: (one.created, one.name))

    def _pods(self, key: GangKey) -> list[PodView]:
        return [self.cache.pods[uid] for uid in self.members.get(key, ()) if uid in self.cache.pods]

    def waiting(self, pod: PodView) -> list[PodView]:
        """Those that have no node yet."""
        return [one for one in self.pods(pod) if one.waits and self.cache.state.placement(one.uid) is None]

    def bound(self, pod: PodView) -> list[PodView]:
        """Those that have a node and are not leaving it."""
        return [one for one in self.pods(pod) if one.node and not one.deleting]

    def placed(self, pod: PodView) -> int:
        """Pods of its gang that have a node or are on their way to one; those that are leaving do not help it."""
        return sum(self.cache.state.placement(one.uid) is not None and not one.deleting for one in self.pods(pod))

    def incomplete(self, pod: PodView) -> str:
        """Why its gang cannot be tried yet; empty when it can."""
        wanted = self.wanted(pod)
        if wanted == 0:
            return f"its group {pod.group!r} is not described by a PodGroup"
        placement = self.cache.state.placement
        members = self._pods((pod.namespace, pod.group))  # a hundred may come one by one: in no order, each seen once
        there = sum(one.waits or (placement(one.uid) is not None and not one.deleting) for one in members)
        if there >= wanted:
            return ""
        late = f"timed out after {self.limit(pod):g} s: " if self.overdue(pod) else ""
        return f"{late}{there} of the {wanted} pods that gang {pod.group!r} needs are there"

    # News

    def expect_news(self, key: GangKey) -> None:
        """The count of a gang that is not complete has changed. Soon its pods say so, together, and not too often."""
        if key not in self._news_at:
            self._news_at[key] = max(self.clock.now() + NEWS_SECONDS, self._news_told.get(key, 0.0) + NEWS_APART)

    def news(self) -> list[tuple[str, str]]:
        """Uids of pods that wait for the rest of their gang, and what to say of it now; each time once."""
        now, found = self.clock.now(), list[tuple[str, str]]()
        for key in [key for key, due in self._news_at.items() if due <= now]:
            del self._news_at[key]
            self._news_told[key] = now
            waiting = [one for one in self._pods(key) if one.waits]
            message = self.incomplete(waiting[0]) if waiting else ""
            found += [(one.uid, message) for one in waiting if message]
        return found

    # Time

    def limit(self, pod: PodView) -> float:
        """Seconds that its gang has to come together: what its group says, else the scheduler's setting."""
        return self.groups.timeout(pod.namespace, pod.group) or self.wait_seconds

    def overdue(self, pod: PodView) -> bool:
        """Whether its gang has been tried for too long without success."""
        since = self._since.setdefault((pod.namespace, pod.group), self.clock.now())
        return self.clock.now() - since >= self.limit(pod)

    def newly_overdue(self) -> list[str]:
        """Uids of gangs whose time has run out since this was last asked: they are worth a look."""
        found: list[str] = []
        for key in [key for key in self._since if key not in self._told]:
            pods = (self.cache.pods.get(uid) for uid in self.members.get(key, ()))
            pod = next((one for one in pods if one is not None), None)
            if pod is not None and self.overdue(pod):
                self._told.add(key)
                found += self.members[key]
        return found

    def whole(self, pod: PodView) -> None:
        """It has been placed: time begins anew if it ever falls apart."""
        self._forget_time((pod.namespace, pod.group))

    def _forget_time(self, key: GangKey) -> None:
        self._since.pop(key, None)
        self._told.discard(key)

    def around(self, pod: PodView) -> GangAround:
        """Where its gang is."""
        if not pod.group:
            return NO_GANG
        places = [self.cache.state.placement(one.uid) for one in self.pods(pod)]
        nodes = [place.node for place in places if place is not None]
        return GangAround(nodes, max(self.wanted(pod), len(places)) - len(nodes))

    def to_release(self, pod: PodView) -> list[PodView]:
        """The half of its gang that is bound, when it is to be given up; else nobody.

        Only a gang that was never whole: all that wait were there before the first one was bound. One that lost a pod
        later (its node failed) is waited for. Only pods that a controller makes again, and one gang at a time.
        """
        bound, waiting = self.bound(pod), self.waiting(pod)
        if not bound or not waiting or len(bound) >= self.wanted(pod) or not self.overdue(pod):
            return []
        if not all(one.owned for one in bound):
            return []
        first = min(one.bound_at for one in bound)
        if any(one.created > first for one in waiting) or self._somebody_leaves(pod):
            return []
        return bound

    def _somebody_leaves(self, pod: PodView) -> bool:
        """Whether a gang is being released already: it may be all that this one needs."""
        gangs = (key for key in self.members if key != (pod.namespace, pod.group))
        pods = (self.cache.pods.get(uid) for key in gangs for uid in self.members[key])
        return any(one is not None and one.deleting for one in pods)
