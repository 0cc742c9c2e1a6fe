"""Changes as the page gets them: only what changed, in order, and everything to those who missed too much."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from dashboard.pages import NO_CPU, SHARE, Told, gpu_nodes, told_cluster
from kube.objects import a_node
from pilotage.dashboard import feed as feed_module
from pilotage.dashboard.curves import SAMPLES, WINDOW_SECONDS
from pilotage.dashboard.feed import Feed
from pilotage.dashboard.rows import PENDING_SHOWN, parse_reasons
from pilotage.dashboard.tally import MOST_PROFILES, OTHERS
from pilotage.model.clock import VirtualClock


def watched(*nodes: Any) -> tuple[Told, Feed]:
    told = told_cluster()
    told.nodes(*nodes)
    feed = Feed(told.cluster, VirtualClock(1000.0))
    feed.look()
    return told, feed


def content(message: bytes) -> dict[str, Any]:
    kind, number, data, *_ = message.decode().split("\n")
    assert kind.startswith("event: ")
    assert number.startswith("id: ")
    found: dict[str, Any] = orjson.loads(data.removeprefix("data: "))
    return found


def news(feed: Feed) -> dict[str, Any]:
    """What one more look brings."""
    before = feed.number
    feed.look()
    messages = feed.since(before)
    return content(messages[0]) if messages else {}


def test_a_placement_sends_its_node_and_its_decision_and_nothing_else() -> None:
    told, feed = watched(*gpu_nodes(50))
    told.placed("a", "node-7", annotations={**SHARE, "alibabacloud.com/gpu-index": "3"})
    found = news(feed)
    (row,) = found["nodes"]["set"]
    assert row[0] == "node-7"
    assert row[4:6] == [64_000, 1_000]
    assert row[-1] == [0, 0, 0, 400, 0, 0, 0, 0]
    (decision,) = found["decisions"]
    assert decision[2] == "default/a"
    assert decision[6:8] == ["node-7", "3"]
    assert "curves" not in found
    assert news(feed) == {}


def test_nodes_that_come_and_go_are_sent_alone() -> None:
    told, feed = watched(*gpu_nodes(3))
    told.node_gone("node-1")
    told.nodes(a_node("new"))
    found = news(feed)["nodes"]
    assert found["gone"] == ["node-1"]
    assert [row[0] for row in found["set"]] == ["new"]


def test_a_cordoned_node_and_a_silent_one_say_so() -> None:
    silent = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    _, feed = watched(a_node("a"), a_node("b", unschedulable=True), a_node("c", taints=silent))
    rows = content(feed.state())["nodes"]["set"]
    assert [row[1] for row in rows] == ["ready", "cordoned", "not ready"]


def test_a_pod_that_fits_nowhere_waits_with_its_reasons_until_it_is_placed() -> None:
    told, feed = watched(*gpu_nodes(2))
    told.pod("large", condition=NO_CPU)
    found = news(feed)
    assert found["about"]["waiting"] == 1
    assert found["about"]["reasons"] == [["Insufficient cpu", 1], ["node(s) had untolerated taint(s)", 1]]
    assert found["pending"]["set"][0][1] == "default/large"
    assert found["decisions"][0][8] == NO_CPU
    told.pod("large", node="node-0")
    found = news(feed)
    assert found["pending"] == {"gone": ["uid-large"]}
    assert found["about"]["waiting"] == 0


def test_the_same_message_twice_is_one_decision() -> None:
    told, feed = watched(*gpu_nodes(2))
    told.pod("large", condition=NO_CPU)
    told.pod("large", condition=NO_CPU)
    assert len(news(feed)["decisions"]) == 1


def test_pods_that_were_bound_before_are_no_decisions() -> None:
    told, feed = watched(*gpu_nodes(2))
    told.pod("old", node="node-0")
    assert "decisions" not in news(feed)


def test_the_oldest_pods_are_listed_and_all_are_counted() -> None:
    told, feed = watched(*gpu_nodes(1))
    for k in range(PENDING_SHOWN + 5):
        told.pod(f"p{k:04}", created=f"2026-01-01T{k // 60:02}:{k % 60:02}:00Z")
    found = news(feed)
    assert found["about"]["waiting"] == PENDING_SHOWN + 5
    assert len(found["pending"]["set"]) == PENDING_SHOWN
    assert found["pending"]["set"][0][1] == "default/p0000"


def test_gated_pods_wait_too_and_say_why() -> None:
    told, feed = watched(*gpu_nodes(1))
    told.pod("gated", schedulingGates=[{"name": "later"}])
    assert news(feed)["about"]["reasons"] == [["has scheduling gates", 1]]


def test_a_page_that_missed_a_little_gets_only_that() -> None:
    told, feed = watched(*gpu_nodes(2))
    seen = feed.number
    for k in range(3):
        told.placed(f"p{k}", "node-0")
        feed.look()
    kinds = [message.split(b"\n")[0] for message in feed.since(seen)]
    assert kinds == [b"event: update"] * 3
    assert feed.since(feed.number) == []


def test_a_page_that_missed_too_much_or_knows_another_process_gets_everything() -> None:
    told, feed = watched(*gpu_nodes(2))
    for k in range(feed_module.UPDATES_KEPT + 2):
        told.placed(f"p{k}", "node-0")
        feed.look()

    async def first(last_seen: str) -> bytes:
        following = feed.follow(last_seen)
        await anext(following)  # how long to wait before connecting again
        message = await anext(following)
        await following.aclose()
        return message

    for last_seen in ("", f"{feed.instance}.1", f"other.{feed.number}", f"{feed.instance}.{'9' * 5000}", "a.b.c"):
        assert asyncio.run(first(last_seen)).startswith(b"event: state\n"), last_seen[:20]
    assert feed.pages == 0


def test_a_page_that_follows_is_told_when_something_happens_and_let_go_at_the_end() -> None:
    async def test() -> list[bytes]:
        told, feed = watched(*gpu_nodes(2))
        following = feed.follow(f"{feed.instance}.{feed.number}")
        await anext(following)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        told.placed("a", "node-0")
        feed.look()
        found = [await waiting]
        feed.end()
        found += [message async for message in following]
        return found

    (message,) = asyncio.run(test())
    assert content(message)["decisions"][0][2] == "default/a"


def test_a_source_that_fails_is_told_and_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> list[str]:
        told, feed = watched(*gpu_nodes(2))
        feed.tick_seconds = 0.0
        problems: list[str] = []

        def broken() -> None:
            raise ValueError("a fault of ours")

        with monkeypatch.context() as patch:
            patch.setattr(told.cluster, "pending", broken)
            task = asyncio.create_task(feed.run())
            while not problems:
                await asyncio.sleep(0)
                problems = [content(feed.state())["about"]["problem"]] if feed.number > 1 else []
        told.placed("a", "node-0")
        while content(feed.state())["about"]["problem"]:
            await asyncio.sleep(0)
        task.cancel()
        return problems

    assert asyncio.run(asyncio.wait_for(test(), 60)) == ["ValueError: a fault of ours"]


def test_curves_hold_throughput_and_latency_and_stay_bounded() -> None:
    told = told_cluster()
    told.nodes(*gpu_nodes(2))
    clock = VirtualClock(1000.0)
    told.cluster.clock = clock
    feed = Feed(told.cluster, clock)
    feed.look()
    told.pod("a")
    clock.wait(3.0)
    told.pod("a", node="node-0", requests={"cpu": "64", "memory": "1Gi"})
    clock.wait(1.0)
    (sample,) = news(feed)["curves"]
    assert sample["rate"] == 0.25
    assert sample["half"] == sample["most"] == 3.0
    assert sample["cpu"] == 50.0
    assert sample["imbalance"] == 50.0
    clock.wait(WINDOW_SECONDS + 2)
    assert news(feed)["curves"][0]["most"] is None
    for _ in range(SAMPLES + 10):
        clock.wait(2.0)
        feed.look()
    assert len(content(feed.state())["curves"]) == SAMPLES


def test_what_is_left_on_used_devices_is_counted_apart() -> None:
    told, feed = watched(*gpu_nodes(1))
    told.placed("a", "node-0", annotations={**SHARE, "alibabacloud.com/gpu-index": "0"})
    feed.clock.wait(5.0)
    (sample,) = news(feed)["curves"]
    assert (sample["gpu"], sample["pieces"]) == (5.0, 7.5)


def test_names_of_schedulers_cannot_fill_the_memory() -> None:
    told, feed = watched(*gpu_nodes(1))
    for k in range(MOST_PROFILES + 20):
        told.placed(f"p{k}", "node-0", schedulerName=f"s{k}")
    feed.look()
    rows = content(feed.state())["policies"]["set"]
    assert len(rows) == MOST_PROFILES + 1
    assert {row[0]: row[2] for row in rows}[OTHERS] == 20


def test_reasons_are_read_from_messages_of_any_scheduler() -> None:
    assert parse_reasons(NO_CPU) == (("Insufficient cpu", 1), ("node(s) had untolerated taint(s)", 1))
    kube = "0/3 nodes are available: 3 Too many pods. preemption: 0/3 nodes are available: 3 No victims."
    assert parse_reasons(kube) == (("Too many pods", 3),)
    kube = (
        "0/5 nodes are available: 2 Insufficient cpu, 3 Insufficient memory. no new claims to deallocate, "
        "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    assert parse_reasons(kube) == (("Insufficient cpu", 2), ("Insufficient memory", 3))
    assert parse_reasons("something else") == (("something else", 0),)
    assert parse_reasons("") == (("not decided yet", 0),)


def test_the_reward_is_what_the_objective_gained_for_each_pod() -> None:
    told, feed = watched(*gpu_nodes(2))
    clock: Any = feed.clock
    told.placed("a", "node-0", annotations={**SHARE, "alibabacloud.com/gpu-index": "0"})
    clock.seconds += 2.0
    (first,) = news(feed)["curves"]
    assert first["reward"] == pytest.approx(-first["pieces"] - first["imbalance"], abs=0.01)  # all was empty
    clock.seconds += 2.0
    (second,) = news(feed)["curves"]
    assert second["reward"] is None  # nobody placed anything
