"""The source that watches a cluster by itself: works beside any scheduler, and needs no right to write.

A pod that is seen to get a node is a decision, and so is a message that it fits nowhere. Events tell what was said
about it. A shadow policy, if there is one, is asked about each pod just before its binding is taken in.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol

from pilotage.dashboard.cached import pending_of, pods_on
from pilotage.dashboard.rows import parse_reasons
from pilotage.dashboard.source import Decision, Explained, Judgement, NodeTable, OnNode, Overview, PendingPod, Said
from pilotage.dashboard.written import read_written
from pilotage.kube.cache import UNFINISHED, ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json
from pilotage.kube.podview import PodView, gpu_index, read_pod
from pilotage.kube.watch import Informer
from pilotage.model.clock import Clock, parse_timestamp
from pilotage.policies.explain import request_text

EVENTS = "/apis/events.k8s.io/v1/events"
TOLD_REASONS = ("Scheduled", "FailedScheduling")
DECISIONS_KEPT = 2000
SAID_KEPT, SAID_PODS = 5, 5000  # events of a pod, pods that have any
AGREEMENT_OF = 100  # newest decisions
FAULT_SECONDS = 15.0  # informers try again every few seconds: an older fault is over


class Advisor(Protocol):
    """Somebody who would decide on the same cluster."""

    name: str

    def advise(self, pod: PodView, actual: str) -> Judgement | None:
        """About a pod that is about to get a node, on the cluster as it is now; None: it cannot say."""
        ...


class Seen(NamedTuple):
    """What is kept of a pod that was seen; thousands of them while a list comes."""

    pod: PodView
    written: Judgement | None = None  # where it has just got its node


@dataclass
class Entry:
    """A decision and what explains it."""

    decision: Decision
    uid: str
    written: Judgement | None = None  # by who decided
    advice: Judgement | None = None


@dataclass
class WatchedCluster:
    """A Source."""

    client: Client
    clock: Clock
    cache: ClusterCache = field(default_factory=ClusterCache)
    advisor: Advisor | None = None

    def __post_init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=DECISIONS_KEPT)
        self._number = 0
        self._waits_since: dict[str, float] = {}  # by uid, by our own clock: the API server's has whole seconds
        self._said: OrderedDict[str, deque[Said]] = OrderedDict()
        self._fault: tuple[float, str] = (float("-inf"), "")
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        namespaces, nodes, pods = NamespaceFollower(self.cache), NodeFollower(self.cache), WatchedPods(self)
        informers = [
            self._informer("/api/v1/namespaces", namespaces),
            self._informer("/api/v1/nodes", nodes),
            self._informer("/api/v1/pods", pods, **UNFINISHED),
        ]
        for reason in TOLD_REASONS:
            informers.append(self._informer(EVENTS, WatchedEvents(self), fieldSelector=f"reason={reason}"))
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            for informer in informers[:3]:
                await informer.synced.wait()
            self.synced.set()

    def _informer(
        self, path: str, follower: NamespaceFollower | NodeFollower | WatchedPods | WatchedEvents, **params: str
    ) -> Informer:
        return Informer(self.client, path, follower, params, on_fault=self._note_fault)

    def _note_fault(self, text: str) -> None:
        self._fault = self.clock.now(), text

    # What the page asks

    def overview(self) -> Overview:
        when, text = self._fault
        fault = text if self.clock.now() - when < FAULT_SECONDS else ""
        missing = "" if self.synced.is_set() else "the cluster is being listed"
        shadow = self.advisor.name if self.advisor is not None else ""
        return Overview(self.client.access.server, shadow, fault or missing, missing, self._figures())

    def _figures(self) -> dict[str, float]:
        """How often whoever decides does what the shadow would do."""
        newest = [entry.decision for entry in islice(reversed(self._entries), AGREEMENT_OF)]
        asked = [decision for decision in newest if decision.advised is not None and decision.node]
        if not asked:
            return {}
        agreed = sum(not decision.differs for decision in asked)
        return {f"Shadow agrees, %, last {AGREEMENT_OF} pods": round(100 * agreed / len(asked), 1)}

    def nodes(self) -> NodeTable:
        return NodeTable.of(self.cache)

    def pods_on(self, node: str) -> Sequence[OnNode] | None:
        return pods_on(self.cache, node)

    def pending(self) -> Sequence[PendingPod]:
        return pending_of(self.cache)

    def decisions(self, after: int) -> Sequence[Decision]:
        newer = []
        for entry in reversed(self._entries):
            if entry.decision.number <= after:
                break
            newer.append(entry.decision)
        return newer[::-1]

    def explain(self, number: int) -> Explained | None:
        place = number - (self._entries[0].decision.number if self._entries else 0)
        if not 0 <= place < len(self._entries):
            return None
        entry = self._entries[place]
        return explained(entry, tuple(self._said.get(entry.uid, ())))

    # What is seen

    def read(self, found: Json) -> Seen:
        pod, before = read_pod(found), self.cache.pods.get(found["metadata"]["uid"])
        if not pod.node or before is None or before.node:
            return Seen(pod)
        return Seen(pod, read_written(found["metadata"].get("annotations") or {}, pod.node))

    def see(self, seen: Seen) -> None:
        """A pod, before the cache takes it in."""
        pod, before = seen.pod, self.cache.pods.get(seen.pod.uid)
        if pod.waits:
            self._waits_since.setdefault(pod.uid, self.clock.now())
            if pod.condition and (before is None or before.condition != pod.condition):
                self._note(Entry(self._decision(pod), pod.uid))
        elif pod.node and before is not None and not before.node:
            written = seen.written
            advice = self.advisor.advise(before, pod.node) if self.advisor is not None else None
            decision = replace(
                self._decision(pod),
                policy=written.policy if written is not None else "",
                advised=advice.node if advice is not None else None,
            )
            self._note(Entry(decision, pod.uid, written, advice))

    def _decision(self, pod: PodView) -> Decision:
        began = self._waits_since.pop(pod.uid, None) if pod.node else None
        return Decision(
            number=self._number + 1,
            time=self.clock.wall().timestamp(),
            pod=pod.key,
            profile=pod.scheduler,
            policy="",
            request=request_text(pod.shape),
            node=pod.node,
            devices=gpu_index(pod.devices),
            message="" if pod.node else pod.condition,
            waited=None if began is None else self.clock.now() - began,
        )

    def _note(self, entry: Entry) -> None:
        self._number += 1
        self._entries.append(entry)

    def forget(self, uid: str) -> None:
        self._waits_since.pop(uid, None)

    def hear(self, found: Json) -> None:
        """An event."""
        regarding = found.get("regarding") or {}
        uid = regarding.get("uid")
        if regarding.get("kind") != "Pod" or not isinstance(uid, str):
            return
        said = read_event(found)
        known = self._said.setdefault(uid, deque(maxlen=SAID_KEPT))
        self._said.move_to_end(uid)
        if said not in known:
            known.append(said)
        while len(self._said) > SAID_PODS:
            self._said.popitem(last=False)


@dataclass
class WatchedPods:
    """Follows /api/v1/pods for the cluster's cache, and sees what is decided."""

    cluster: WatchedCluster

    def __post_init__(self) -> None:
        self._cache = PodFollower(self.cluster.cache)

    def read(self, found: Json) -> Seen:
        return self.cluster.read(found)

    def listed(self, objects: list[Json]) -> None:
        self.listed_as_read([*map(self.read, objects)])

    def listed_as_read(self, objects: list[Seen]) -> None:
        for seen in objects:
            self.cluster.see(seen)
        self._cache.listed_as_read([seen.pod for seen in objects])

    def changed(self, found: Json) -> None:
        seen = self.read(found)
        self.cluster.see(seen)
        self.cluster.cache.take(seen.pod)

    def deleted(self, last: Json) -> None:
        self.cluster.forget(last["metadata"]["uid"])
        self._cache.deleted(last)


@dataclass
class WatchedEvents:
    """Follows events; those that are gone stay with their pod."""

    cluster: WatchedCluster

    def listed(self, objects: list[Json]) -> None:
        for found in objects:
            self.cluster.hear(found)

    def changed(self, found: Json) -> None:
        self.cluster.hear(found)

    def deleted(self, last: Json) -> None:
        pass


def read_event(found: Json) -> Said:
    series = found.get("series") or {}
    when = series.get("lastObservedTime") or found.get("eventTime") or found.get("deprecatedLastTimestamp")
    by = found.get("reportingController") or (found.get("deprecatedSource") or {}).get("component") or ""
    try:
        time = parse_timestamp(when).timestamp() if isinstance(when, str) else 0.0
    except ValueError:
        time = 0.0
    return Said(time, str(by), str(found.get("reason") or ""), str(found.get("note") or ""))


def explained(entry: Entry, said: tuple[Said, ...]) -> Explained:
    """From what was seen, written and said, and from what the shadow thought."""
    decision, written, advice = entry.decision, entry.written, entry.advice
    if not decision.node:
        reasons = tuple((reason, count) for reason, count in parse_reasons(decision.message) if count)
        return Explained(decision, decision.message, filtered=reasons, said=said)
    verdict = written.verdict if written is not None and written.verdict else ""
    judgements = tuple(one for one in (written, advice) if one is not None)
    return Explained(decision, verdict or f"{decision.profile} put it on {decision.node}", (), judgements, (), said)
