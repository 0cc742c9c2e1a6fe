"""Where the page's data comes from: the journal of a scheduler, what it wrote on pods, and a shadow policy."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from dashboard.pages import Told, gpu_nodes, told_cluster
from kube.objects import a_node, a_pod
from pilotage.dashboard.journalled import JournalSource
from pilotage.dashboard.source import Explained
from pilotage.dashboard.watching import WatchedPods
from pilotage.dashboard.written import ANNOTATION, MAX_BYTES, read_written
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.podview import read_pod
from pilotage.kube.watch import PageFollower
from pilotage.model.clock import VirtualClock
from pilotage.model.outcome import Choice, Scheduled, Unschedulable
from pilotage.policies.journal import Attempt, Journal
from pilotage.policies.registry import find_policy
from pilotage.scheduler import explaining
from pilotage.scheduler.advising import Adviser
from pilotage.scheduler.shadow import Shadow
from pilotage.scheduler.shown_advice import AdviceSource

CHOICE = Choice("fgd@1", (("node-1", 7.5), ("node-0", 3.0)), 2, 3, (("Insufficient cpu", 1),))


def attempt(time: float, name: str = "a") -> Attempt:
    pod = read_pod(a_pod(name))
    return Attempt(time, "one", "pilotage", "fgd@1", pod.uid, pod.key, pod.shape, seconds=0.002)


def test_decisions_of_a_journal_come_once_and_in_order() -> None:
    clock, cache, journal = VirtualClock(100.0), ClusterCache(), Journal(kept=3)
    source = JournalSource(cache, journal, clock)
    for k in range(5):
        journal.add(attempt(float(k), f"p{k}"), Scheduled("node-1", 0b101, CHOICE))
    assert [decision.number for decision in source.decisions(0)] == [3, 4, 5]
    assert [decision.pod for decision in source.decisions(4)] == ["default/p4"]
    assert source.decisions(5) == []
    assert source.decisions(0)[0].devices == "0-2"
    assert source.explain(1) is None
    assert source.explain(6) is None


def test_a_journal_explains_by_its_candidates() -> None:
    journal = Journal()
    source = JournalSource(ClusterCache(), journal, VirtualClock())
    journal.add(attempt(1.0), Scheduled("node-1", 0, CHOICE))
    journal.add(attempt(2.0), Unschedulable((("Insufficient cpu", 3),), 3))
    found = expect(source.explain(1))
    assert found.judgements[0].best == CHOICE.best
    assert found.judgements[0].filtered == CHOICE.reasons
    assert found.verdict == CHOICE.verdict
    refused = expect(source.explain(2))
    assert refused.decision.node == ""
    assert refused.decision.message == "0/3 nodes are available: 3 Insufficient cpu."


def expect(found: Explained | None) -> Explained:
    assert found is not None
    return found


def test_waiting_counts_from_when_the_pod_was_seen() -> None:
    clock, cache, journal = VirtualClock(100.0), ClusterCache(), Journal()
    heard = []
    cache.listener.pod_waits = lambda pod: heard.append(pod.key)
    source = JournalSource(cache, journal, clock)
    NodeFollower(cache).changed(a_node("node-1"))
    PodFollower(cache).changed(a_pod("a"))
    journal.add(attempt(104.0), Scheduled("node-1", 0, CHOICE))
    assert source.decisions(0)[0].waited == 4.0
    assert heard == ["default/a"]  # whoever listened before still does


# What is written on pods


def test_what_the_scheduler_writes_is_what_the_page_reads() -> None:
    decision = Journal().add(attempt(1.0), Scheduled("node-1", 0, CHOICE))
    found = read_written(explaining.annotation(decision), "node-1")
    assert found is not None
    assert explaining.ANNOTATION == ANNOTATION
    assert (found.policy, found.best, found.candidates) == ("fgd@1", CHOICE.best, 2)
    assert (found.verdict, found.filtered) == (CHOICE.verdict, CHOICE.reasons)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"policy": 3, "node": "n"}',
        '{"policy": "p"}',
        '{"policy": "p", "node": "other"}',
        "x" * (MAX_BYTES + 1),
        "[" * 5000,
    ],
)
def test_what_anybody_else_wrote_there_is_left_out(text: str) -> None:
    assert read_written({ANNOTATION: text}, "n") is None


def test_odd_values_are_left_out_and_the_rest_is_shown() -> None:
    odd: dict[str, Any] = {
        "policy": "p",
        "node": "n",
        "why": {"a": 1},
        "best": [["n", 1], ["m", "2"], [3, 4], "x", [1]],
        "candidates": "many",
        "reasons": {"a": 1},
    }
    found = read_written({ANNOTATION: orjson.dumps(odd).decode()}, "n")
    assert found is not None
    assert found.best == (("n", 1.0),)
    assert (found.candidates, found.filtered) == (0, ())


def test_a_cluster_that_is_listed_again_shows_what_was_decided_meanwhile() -> None:
    """Page by page: the JSON of all pods at once would take several times the memory of what is kept."""
    told = told_cluster()
    told.nodes(*gpu_nodes(2))
    told.pod("a")
    told.pod("gone")
    written = explaining.annotation(Journal().add(attempt(1.0), Scheduled("node-1", 0, CHOICE)))
    follower = WatchedPods(told.cluster)
    assert isinstance(follower, PageFollower)
    pods = [a_pod("a", node="node-1", annotations=written), a_pod("b", node="node-0", annotations=written)]
    follower.listed_as_read([follower.read(found) for found in pods])
    assert [(one.pod, one.node) for one in told.cluster.decisions(0)] == [("default/a", "node-1")]
    assert expect(told.cluster.explain(1)).judgements[0].best == CHOICE.best
    assert sorted(told.cluster.cache.pods) == ["uid-a", "uid-b"]


# The shadow


@pytest.fixture
def told() -> Told:
    found = told_cluster()
    found.cluster.advisor = Shadow(found.cluster.cache, find_policy("best-fit"))
    found.nodes(*gpu_nodes(3))
    found.pod("there", node="node-1", requests={"cpu": "40", "memory": "1Gi"})
    return found


def test_a_shadow_says_where_it_would_have_put_a_pod(told: Told) -> None:
    told.placed("a", "node-2")
    told.placed("b", "node-1")
    first, second = told.cluster.decisions(0)
    assert (first.node, first.advised, first.differs) == ("node-2", "node-1", True)
    assert (second.node, second.advised, second.differs) == ("node-1", "node-1", False)
    (judgement,) = expect(told.cluster.explain(1)).judgements
    assert judgement.shadow
    assert judgement.best[0][0] == "node-1"
    assert judgement.candidates == 3
    assert judgement.rank == 3  # node-0 is as empty, and comes before it


def test_a_shadow_leaves_the_cluster_as_it_is(told: Told) -> None:
    cache = told.cluster.cache
    told.pod("a")
    pod = cache.pods["uid-a"]
    cache.refresh()
    before = cache.state.arrays.free_NR.copy()
    assert told.cluster.advisor is not None
    assert told.cluster.advisor.advise(pod, "node-0") is not None
    assert (cache.state.arrays.free_NR == before).all()
    assert cache.state.placement("uid-a") is None


def test_a_shadow_for_which_a_pod_fits_nowhere_says_why(told: Told) -> None:
    told.placed("huge", "node-0", requests={"cpu": "900", "memory": "1Gi"})
    (decision,) = told.cluster.decisions(0)
    assert decision.advised == ""
    assert "Insufficient cpu" in expect(told.cluster.explain(1)).judgements[0].verdict


# Curves of their own


def test_a_journal_has_the_scores_of_the_nodes_that_were_chosen() -> None:
    journal = Journal()
    source = JournalSource(ClusterCache(), journal, VirtualClock())
    assert source.overview().figures == {}
    journal.add(attempt(1.0), Scheduled("node-1", 0, CHOICE))
    journal.add(attempt(2.0), Unschedulable((("Insufficient cpu", 3),), 3))
    assert list(source.overview().figures.values()) == [7.5]


def test_advice_is_shown_beside_what_was_done() -> None:
    clock = VirtualClock(100.0)
    with_access: Any = type("Client", (), {"access": type("Access", (), {"server": "https://one"})})
    adviser = Adviser(with_access, {"default-scheduler": find_policy("best-fit")}, clock)
    source = AdviceSource.of(adviser, clock)
    NodeFollower(adviser.cache).listed([a_node("node-0", cpu="4"), a_node("node-1", cpu="16")])
    for name, node in (("a", "node-0"), ("b", "node-1")):
        pods = PodFollower(adviser.cache)
        pods.changed(a_pod(name, schedulerName="default-scheduler"))
        clock.seconds += 2.0
        pods.changed(a_pod(name, schedulerName="default-scheduler", node=node))
    first, second = source.decisions(0)
    assert (first.node, first.advised, first.differs, first.waited) == ("node-0", "node-0", False, 2.0)
    assert (second.node, second.advised, second.differs) == ("node-1", "node-0", True)
    judged = expect(source.explain(2)).judgements[0]
    assert (judged.shadow, judged.node, judged.rank, judged.policy) == (True, "node-0", 2, "best-fit@1")
    overview = source.overview()
    assert (overview.shadow, list(overview.figures.values())) == ("best-fit@1", [50.0])
