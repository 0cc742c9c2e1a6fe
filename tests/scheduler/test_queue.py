"""The queue: who is next, who pauses, and what wakes whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube.objects import a_pod
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.clock import VirtualClock
from pilotage.scheduler.queue import RETRY_SECONDS, Entry, Queue


def pod(name: str, priority: int = 0, created: str = "2026-01-01T00:00:00Z", **more: object) -> PodView:
    return read_pod(a_pod(name, priority=priority, created=created, **more))


def popped(queue: Queue) -> Entry:
    entry = queue.pop()
    assert entry is not None
    return entry


def test_priority_first_then_age_then_order_of_creation() -> None:
    queue = Queue(VirtualClock())
    late = pod("late", created="2026-01-02T00:00:00Z")
    for one in (late, pod("first"), pod("second"), pod("urgent", priority=5)):
        queue.add(one)
    assert [popped(queue).pod.name for _ in range(4)] == ["urgent", "first", "second", "late"]
    assert queue.pop() is None


def test_a_pod_that_does_not_fit_waits_for_room_and_for_its_pause() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    queue.add(pod("a"))
    entry = popped(queue)
    queue.park(entry, "too small")
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert queue.pop() is None
    queue.room_made()
    assert queue.counts() == {"active": 0, "backoff": 1, "unschedulable": 0}
    assert queue.pop() is None
    assert queue.due_in() == 1.0
    clock.wait(1.0)
    assert popped(queue) is entry
    queue.park(entry, "too small")
    queue.room_made()
    clock.wait(1.0)
    assert queue.pop() is None  # the second pause is longer
    clock.wait(1.0)
    assert popped(queue) is entry


def test_pauses_grow_to_a_limit() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    queue.add(pod("a"))
    lengths = []
    for _ in range(6):
        queue.pause(popped(queue))
        due = queue.due_in()
        assert due is not None
        lengths.append(due)
        clock.wait(due)
    assert lengths == [1, 2, 4, 8, 10, 10]


def test_after_a_long_time_a_pod_is_tried_again_anyway() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    queue.add(pod("a"))
    queue.park(popped(queue), "no")
    assert queue.due_in() == RETRY_SECONDS
    clock.wait(RETRY_SECONDS)
    assert popped(queue).pod.name == "a"


def test_a_changed_pod_is_tried_again_an_unchanged_one_is_not() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    queue.add(pod("a"))
    queue.park(popped(queue), "no")
    queue.add(pod("a"))
    assert queue.counts()["unschedulable"] == 1
    queue.add(pod("a", labels={"new": "label"}))
    clock.wait(1.0)
    assert popped(queue).pod.labels == {"new": "label"}


def test_a_removed_pod_does_not_come_back() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    for name in ("a", "b", "c", "d"):
        queue.add(pod(name))
    first, second = popped(queue), popped(queue)
    queue.park(first, "no")
    for uid in ("uid-a", "uid-b", "uid-c"):
        queue.remove(uid)
    queue.pause(second)
    queue.put_back(first)
    queue.room_made()
    clock.wait(100)
    assert popped(queue).pod.name == "d"
    assert queue.pop() is None


def test_one_of_a_gang_is_taken_from_wherever_it_waits() -> None:
    queue = Queue(VirtualClock())
    for name in ("a", "b"):
        queue.add(pod(name))
    queue.park(popped(queue), "alone")
    waiting = queue.get("uid-a")
    assert waiting is not None
    taken = queue.take(waiting)
    queue.room_made()
    assert popped(queue).pod.name == "b"
    assert queue.pop() is None
    queue.put_back(taken)
    assert popped(queue).pod.name == "a"


@given(
    st.lists(st.sampled_from(["add", "pop", "park", "pause", "back", "room", "wait", "remove", "wake"]), max_size=60)
)
def test_no_pod_is_lost_and_none_is_popped_twice(story: list[str]) -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    made, taken, present = 0, list[Entry](), set[str]()
    for action in story:
        if action == "add":
            queue.add(pod(f"p{made}"))
            present.add(f"uid-p{made}")
            made += 1
        elif action == "pop":
            entry = queue.pop()
            if entry is not None:
                assert entry.pod.uid in present
                assert all(entry is not other for other in taken)
                taken.append(entry)
        elif action == "room":
            queue.room_made()
        elif action == "wait":
            clock.wait(3.0)
        elif action == "wake" and made:
            queue.wake(f"uid-p{made - 1}")
        elif action == "remove" and present:
            uid = min(present)
            present.discard(uid)
            queue.remove(uid)
            taken = [entry for entry in taken if entry.pod.uid != uid]
        elif taken and action in ("park", "pause", "back"):
            entry = taken.pop()
            {"park": lambda e: queue.park(e, "no"), "pause": queue.pause, "back": queue.put_back}[action](entry)
    assert sum(queue.counts().values()) + len(taken) == len(present)
    queue.room_made()
    clock.wait(2 * RETRY_SECONDS)
    rest = {entry.pod.uid for entry in iter(queue.pop, None)}
    assert rest | {entry.pod.uid for entry in taken} == present


def test_a_change_of_nodes_wakes_everybody_at_once_but_not_all_the_time() -> None:
    clock = VirtualClock()
    queue = Queue(clock)
    for name in ("a", "b"):
        queue.add(read_pod(a_pod(name)))
    for _ in range(2):
        entry = queue.pop()
        assert entry is not None
        queue.park(entry, "no room")
    queue.nodes_changed()
    assert queue.due_in() == 0.0
    entries = [queue.pop(), queue.pop()]
    assert None not in entries
    for entry in entries:
        assert entry is not None
        queue.park(entry, "no room")
    queue.nodes_changed()  # right after the last change: together with those that follow
    queue.nodes_changed()
    assert queue.pop() is None
    assert queue.due_in() == 0.5
    clock.wait(0.5)
    assert queue.pop() is not None
