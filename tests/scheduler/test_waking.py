"""Who is tried again when, and what waiting pods say: no change that helps is missed, nobody is told twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from kube.objects import a_claim, a_csi_node, a_node, a_pod, a_volume, an_attachment, claiming
from kube.servers import until
from pilotage.kube.client import Json
from pilotage.kube.podview import PodView
from pilotage.scheduler.run import Scheduler
from scheduler.apiserver import FakeServer, refused, scheduling

ZONE = "topology.kubernetes.io/zone"
LABEL = "scheduling.x-k8s.io/pod-group"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def near(app: str, **more: Any) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname", **more}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread() -> list[Json]:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [{**rule, "nodeAffinityPolicy": "Ignore"}]


async def parked(scheduler: Scheduler, name: str) -> None:
    await until(lambda: f"uid-{name}" in scheduler.queue._parked, f"{name} fits nowhere")


def friend_comes(server: FakeServer) -> None:
    server.make("friend", labels={"app": "db"})


def friend_is_put_there(server: FakeServer) -> None:
    server.make("friend", labels={"app": "db"}, node="n0", schedulerName="somebody")


def neighbour_changes(server: FakeServer) -> None:
    server.change("large", lambda pod: pod["metadata"].update(labels={"app": "db"}))


def large_shrinks(server: FakeServer) -> None:
    def smaller(pod: Json) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"

    server.change("large", smaller)


def large_goes(server: FakeServer) -> None:
    server.remove("large")


def namespace_is_labelled(server: FakeServer) -> None:
    server.put("namespaces", {"metadata": {"name": "other", "labels": {"team": "a"}}})


def claim_is_bound(server: FakeServer) -> None:
    server.put("persistentvolumeclaims", a_claim("new", "pv-new"))


def claim_comes(server: FakeServer) -> None:
    server.put("persistentvolumeclaims", a_claim("late", "pv-late"))


def volume_comes(server: FakeServer) -> None:
    server.put("persistentvolumes", a_volume("pv-lost", "lost"))


def volume_moves(server: FakeServer) -> None:
    server.put("persistentvolumes", a_volume("pv-far", "far", labels={ZONE: "a"}))


def limit_is_raised(server: FakeServer) -> None:
    server.put("csinodes", a_csi_node("n0", ebs=2))


def volume_is_detached(server: FakeServer) -> None:
    server.remove("old", "volumeattachments", "")


def claim_is_free(server: FakeServer) -> None:
    server.remove("alone")


SOMEWHERE = near("db", namespaceSelector={"matchLabels": {"team": "a"}})
CASES: dict[str, tuple[Json, Callable[[FakeServer], None]]] = {
    "a friend is bound by us": ({"affinity": near("db")}, friend_comes),
    "a friend is bound by others": ({"affinity": near("db")}, friend_is_put_there),
    "labels change": ({"affinity": near("db")}, neighbour_changes),
    "a pod is resized": ({"requests": {"cpu": "3"}}, large_shrinks),
    "a pod goes": ({"requests": {"cpu": "3"}}, large_goes),
    "a namespace is labelled": ({"affinity": SOMEWHERE}, namespace_is_labelled),
    "a claim is bound": ({"volumes": claiming("new")}, claim_is_bound),
    "a claim comes": ({"volumes": claiming("late")}, claim_comes),
    "a volume comes": ({"volumes": claiming("lost")}, volume_comes),
    "a volume moves": ({"volumes": claiming("far")}, volume_moves),
    "a node can attach more": ({"volumes": claiming("disk")}, limit_is_raised),
    "a volume is detached": ({"volumes": claiming("disk")}, volume_is_detached),
    "a claim is free": ({"volumes": claiming("one")}, claim_is_free),
}


def put_storage(server: FakeServer) -> None:
    """Claims that cannot be used on the only node, each for another reason."""
    server.put("csinodes", a_csi_node("n0", ebs=1))
    server.put("persistentvolumes", a_volume("pv-old", driver="ebs"))
    server.put("volumeattachments", an_attachment("old", "n0", "ebs", "pv-old"))
    server.put("persistentvolumeclaims", a_claim("new"))
    server.put("persistentvolumeclaims", a_claim("lost", "pv-lost"))
    far, disk = {"labels": {ZONE: "b"}}, {"driver": "ebs"}
    volumes: dict[str, Json] = {"new": {}, "late": {}, "one": {}, "far": far, "disk": disk}
    for name, more in volumes.items():
        server.put("persistentvolumes", a_volume(f"pv-{name}", name, **more))
    for name in ("far", "disk"):
        server.put("persistentvolumeclaims", a_claim(name, f"pv-{name}"))
    server.put("persistentvolumeclaims", a_claim("one", "pv-one", modes=["ReadWriteOncePod"]))
    server.make("alone", node="n0", requests={"cpu": "0"}, schedulerName="somebody", volumes=claiming("one"))


@pytest.mark.parametrize("case", CASES)
def test_a_pod_that_waits_is_tried_when_something_happens_that_helps(case: str) -> None:
    async def test() -> None:
        fields, happens = CASES[case]
        server = FakeServer(a_node("n0", "4", labels={ZONE: "a"}))
        server.put("namespaces", {"metadata": {"name": "other"}})
        put_storage(server)
        server.make("large", node="n0", requests={"cpu": "2"}, schedulerName="somebody")
        server.put("pods", a_pod("far", namespace="other", node="n0", requests={"cpu": "0"}, labels={"app": "db"}))
        async with scheduling(server) as (scheduler, _):
            server.make("waits", **fields)
            await parked(scheduler, "waits")
            happens(server)
            await until(lambda: server.node_of("waits") == "n0", "it is bound")

    run(test)


def test_a_claim_wakes_those_that_name_it_and_nobody_else() -> None:
    async def test() -> None:
        server = FakeServer()
        async with scheduling(server) as (scheduler, _):
            server.make("other", volumes=claiming("y"))
            server.make("waits", volumes=claiming("x"))
            await parked(scheduler, "other")
            await parked(scheduler, "waits")
            server.put("persistentvolumes", a_volume("pv-x", "x"))
            server.put("persistentvolumeclaims", a_claim("x", "pv-x"))
            await until(lambda: server.node_of("waits") == "n0", "it is bound")
            assert "uid-other" in scheduler.queue._parked
            assert sum(decision.pod == "default/other" for decision in scheduler.journal) == 1

    run(test)


def test_a_device_class_changes_what_a_pod_is_told() -> None:
    async def test() -> None:
        server = FakeServer()
        async with scheduling(server) as (scheduler, _):
            server.make("waits", requests={"cpu": "1", "example.com/nic": "1"})
            await parked(scheduler, "waits")
            await until(lambda: "1 Insufficient example.com/nic" in server.message("waits"), "nobody has it")
            spec = {"extendedResourceName": "example.com/nic"}
            server.put("deviceclasses", {"metadata": {"name": "nic"}, "spec": spec})
            told = "example.com/nic of the device class 'nic' (DRA)"
            await until(lambda: told in server.message("waits"), "the class has it")
            server.remove("nic", "deviceclasses", "")
            await until(lambda: "1 Insufficient example.com/nic" in server.message("waits"), "nobody has it again")

    run(test)


def test_without_the_right_to_see_volumes_their_pods_are_sent_to_the_extender() -> None:
    async def test() -> None:
        server = FakeServer()
        server.put("persistentvolumes", a_volume("pv-x", "x"))
        server.put("persistentvolumeclaims", a_claim("x", "pv-x"))
        hidden = ("csinodes", "deviceclasses")
        server.before = lambda request: refused(403, "Forbidden") if request.path.endswith(hidden) else None
        async with scheduling(server) as (_, said):
            server.make("waits", volumes=claiming("x"))
            server.make("plain")
            await until(lambda: server.node_of("plain") == "n0", "others are bound")
            await until(lambda: "may not see claims: let kube-scheduler" in server.message("waits"), "it is told")
        assert said == [
            "pods with volume claims are not placed: csinodes cannot be listed",
            "extended resources of device classes are not told apart: deviceclasses cannot be listed",
        ]

    run(test)


def test_a_pod_that_evens_out_a_spread_wakes_those_that_wait_for_it() -> None:
    async def test() -> None:
        zones = [a_node(f"n{i}", "4", labels={ZONE: f"z{i}"}) for i in range(2)]
        server = FakeServer(*zones)
        web_pod: Json = {"labels": {"app": "web"}, "topologySpreadConstraints": spread()}
        server.make("first", node="n0", **web_pod)
        async with scheduling(server) as (scheduler, _):
            server.make("waits", nodeSelector={ZONE: "z0"}, **web_pod)
            await parked(scheduler, "waits")
            server.make("other", labels={"app": "other"}, nodeSelector={ZONE: "z1"})
            await until(lambda: server.node_of("other") == "n1", "somebody else comes")
            assert "uid-waits" in scheduler.queue._parked  # that is no help
            server.make("second", node="n1", labels={"app": "web"}, schedulerName="somebody")
            await until(lambda: server.node_of("waits") == "n0", "it is bound")

    run(test)


def test_room_of_a_pod_that_was_gone_when_it_was_bound_goes_to_those_that_wait() -> None:
    """404 comes before the watch tells: nothing else would wake them."""

    async def test() -> None:
        server, held = FakeServer(), asyncio.Event()

        def gone(request: web.Request) -> web.Response | None:
            if request.path.endswith("first/binding"):
                server.silent = True
                return refused(404, "NotFound")
            return None

        async with scheduling(server) as (scheduler, _):
            bind = scheduler.bindings.binder.bind

            async def later(*words: Any) -> Any:
                await held.wait()
                return await bind(*words)

            scheduler.bindings.binder.bind = later  # type: ignore[assignment, method-assign]
            server.before = gone
            server.make("first", requests={"cpu": "3"})
            await until(lambda: scheduler.cache.state.assumed("uid-first"), "it is decided")
            server.make("second", requests={"cpu": "3"})
            await parked(scheduler, "second")
            held.set()
            await until(lambda: server.node_of("second") == "n0", "the second one has the room")

    run(test)


def test_a_promise_that_helps_no_more_is_withdrawn_and_its_room_goes_to_those_that_wait() -> None:
    async def test() -> None:
        server = FakeServer(a_node("n0", "4", labels={"disk": "ssd"}))
        server.make("low", node="n0", requests={"cpu": "4"}, phase="Running")

        def leaves(request: web.Request) -> web.Response | None:
            if not request.path.endswith("/low/eviction"):
                return None
            server.change("low", lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
            return web.json_response({}, status=201)

        def promised() -> str:
            return str(server.objects["pods"]["default/urgent"]["status"].get("nominatedNodeName") or "")

        server.before = leaves
        async with scheduling(server) as (scheduler, _):
            written: list[str] = []
            nominate = scheduler.rooms.binder.nominate

            async def noted(pod: PodView, node: str) -> None:
                written.append(node)
                await nominate(pod, node)

            scheduler.rooms.binder.nominate = noted  # type: ignore[method-assign]
            server.make("urgent", requests={"cpu": "4"}, priority=10, nodeSelector={"disk": "ssd"})
            await until(lambda: scheduler.cache.pods["uid-low"].deleting, "room is being made")
            server.make("small", requests={"cpu": "1"})
            await parked(scheduler, "small")
            server.change("n0", lambda node: node["metadata"]["labels"].pop("disk"), "nodes", "")
            await until(lambda: "didn't match" in server.message("urgent"), "the node is none for it any more")
            assert promised() == "n0"  # somebody is leaving it for this pod
            server.remove("low")
            await until(lambda: server.node_of("small") == "n0", "small has the room")
            await until(lambda: not promised(), "nothing is promised")
            assert scheduler.cache.claims.known == {}
            await scheduler.tasks.finish()
            assert written == ["n0", ""]

    run(test)


def test_a_budget_that_allows_more_wakes_those_that_could_not_preempt() -> None:
    from pilotage.kube.budgets import Budgets

    told: list[str] = []
    budgets = Budgets(on_more=told.append)

    def budget(allowed: int) -> Json:
        return {"metadata": {"namespace": "a", "name": "b"}, "status": {"disruptionsAllowed": allowed}}

    budgets.listed([budget(0)])
    budgets.changed(budget(0))
    assert told == []
    budgets.changed(budget(1))
    assert len(told) == 1
    budgets.changed(budget(0))
    assert len(told) == 1
    budgets.listed([])
    assert len(told) == 2


def test_a_gang_that_comes_one_by_one_says_little_and_is_bound_at_once() -> None:
    async def test() -> None:
        server = FakeServer(a_node("n0", "64"), gangs=True)
        server.gang("job", 51)
        async with scheduling(server) as (scheduler, _):
            for number in range(50):
                server.make(f"p{number:02}", labels={LABEL: "job"}, requests={"cpu": "1"})
                await asyncio.sleep(0.002)
            counted = "50 of the 51 pods that gang 'job' needs are there"
            await until(lambda: all(server.message(f"p{i:02}") == counted for i in range(50)), "all say the last count")
            assert server.count("PATCH status") <= 100
            assert (
                sum(d.result == "waiting" for d in scheduler.journal) == 50
            )  # an echo of a message is no reason to try
            server.make("last", labels={LABEL: "job"})
            await until(lambda: server.node_of("p00") == server.node_of("last") == "n0", "the gang is bound")

    run(test)


def test_a_gang_that_needs_fewer_is_tried() -> None:
    async def test() -> None:
        server = FakeServer(gangs=True)
        server.gang("job", 2)
        async with scheduling(server) as (scheduler, _):
            server.make("a", labels={LABEL: "job"})
            await parked(scheduler, "a")
            server.gang("job", 1)
            await until(lambda: server.node_of("a") == "n0", "it is bound")

    run(test)


def test_a_pod_that_changes_its_gang_counts_for_the_new_one_alone() -> None:
    async def test() -> None:
        server = FakeServer(gangs=True)
        for name in "ab":
            server.gang(name, 2)
        async with scheduling(server) as (scheduler, _):
            server.make("first", labels={LABEL: "a"})
            await parked(scheduler, "first")
            server.change("first", lambda pod: pod["metadata"]["labels"].update({LABEL: "b"}))
            await until(lambda: scheduler.cache.pods["uid-first"].group == "b", "it is seen")
            server.make("second", labels={LABEL: "a"})
            await parked(scheduler, "second")
            await until(lambda: server.message("second").startswith("1 of the 2"), "a lacks one")
            assert server.node_of("first") == server.node_of("second") == ""
            server.make("third", labels={LABEL: "b"})
            await until(lambda: server.node_of("first") == server.node_of("third") == "n0", "b is whole")
            server.change("first", lambda pod: pod["metadata"]["labels"].pop(LABEL))
            server.change("third", lambda pod: pod["metadata"]["labels"].update({LABEL: "a"}))
            await until(lambda: server.node_of("second") == "n0", "a is whole with one that is bound")
            assert scheduler.gangs.members == {("default", "a"): {"uid-second", "uid-third"}}
            for name in ("first", "second", "third"):
                server.remove(name)
            await until(lambda: not scheduler.cache.pods, "all are gone")
            assert scheduler.gangs.members == {}

    run(test)


def test_late_reports_are_not_written_and_only_the_newest_is() -> None:
    """More pods than reports at a time, and a server that takes its time."""

    async def test() -> None:
        server, slow = FakeServer(), asyncio.Event()
        answer = server.answer

        async def slowly(request: web.Request) -> web.StreamResponse:
            if request.method == "PATCH":
                await slow.wait()
            return await answer(request)

        server.answer = slowly  # type: ignore[method-assign]
        async with scheduling(server) as (scheduler, _):
            for number in range(20):
                server.make(f"p{number:02}", requests={"cpu": "9"})
            await until(lambda: len(scheduler.queue._parked) == 20, "none fits")
            server.put("nodes", a_node("n1", "9"))  # one fits now, the others say something else
            await until(lambda: sum(d.nodes == 2 for d in scheduler.journal) >= 19, "all are tried again")
            slow.set()
            await until(
                lambda: sum(server.message(f"p{i:02}").startswith("0/2") for i in range(20)) == 19, "news is told"
            )
            await until(lambda: any(server.node_of(f"p{i:02}") == "n1" for i in range(20)), "one is bound")
            await scheduler.bindings.finish()
            bound = next(i for i in range(20) if server.node_of(f"p{i:02}"))
            patched = [one for one in server.requests if one.startswith("PATCH")]
            assert sum(f"/p{bound:02}/" in one for one in patched) <= 1
            # The eight that were being written say two things, the others only the newest.
            assert len(patched) <= 20 + 8
            order = [one for one in server.requests if f"/p{bound:02}/" in one]
            assert order[-1].endswith("binding")

    run(test)
