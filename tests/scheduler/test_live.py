"""The scheduler on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from deploy.test_permissions import serve_pod_groups
from lab.labs import eventually, make_namespace, pod
from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client, Json
from pilotage.kube.lease import Lease, LeaseSettings, NotLeadingError
from pilotage.kube.podview import device_mask
from pilotage.kube.watch import Informer
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.nodes import add, described, numbered, remove
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from scheduler.live import a_scheduler, condition

SHARE = {"alibabacloud.com/gpu-milli": "400", "alibabacloud.com/gpu-count": "1"}
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1"


def live(lab: Lab, test: Callable[[Client, str], Awaitable[None]]) -> None:
    """Runs a test with a client and a namespace of its own."""

    async def run(client: Client) -> None:
        await test(client, await make_namespace(client))

    in_lab(lab, run)


async def pods_of(client: Client, namespace: str) -> dict[str, Json]:
    found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
    return {one["metadata"]["name"]: one for one in found}


async def all_bound(client: Client, namespace: str, count: int) -> dict[str, Json] | None:
    pods = await pods_of(client, namespace)
    bound = {name: one for name, one in pods.items() if one["spec"].get("nodeName")}
    return bound if len(bound) == count else None


async def make(client: Client, namespace: str, *manifests: Json) -> None:
    for manifest in manifests:
        await client.create(f"/api/v1/namespaces/{namespace}/pods", manifest)


def own_nodes(namespace: str, count: int, **more: Any) -> list[Node]:
    """Nodes for one test alone: its pods select their label."""
    template = Node("node", 8_000, 32 * 2**30, labels=(("test", namespace),), **more)
    return numbered(template, count, namespace)


async def add_ready(client: Client, nodes: list[Node]) -> None:
    """Nodes that anybody may use when this returns."""
    await add(client, nodes)
    names = {node.name for node in nodes}

    async def ready() -> bool | None:
        found = [node for node in await described(client) if node.name in names]
        return not any(t.key.startswith("node.kubernetes.io/") for node in found for t in node.taints) or None

    await eventually(ready, "the nodes are ready")


def for_test(namespace: str, name: str, *, scheduler: str = "pilotage", **more: Any) -> Json:
    return pod(name, scheduler=scheduler, nodeSelector={"test": namespace}, **more)


def test_pods_are_bound_by_two_requests_each_and_devices_written_down(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add_ready(client, own_nodes(namespace, 2, gpu_count=2, gpu_model="A"))
        # A name of its own: pods that other tests left waiting cost requests, too.
        manifests = [for_test(namespace, f"p{i}", scheduler=namespace, annotations=SHARE) for i in range(8)]
        async with a_scheduler(lab, f"{namespace}=fgd") as scheduler:
            await make(client, namespace, *manifests)
            bound = await eventually(lambda: all_bound(client, namespace, 8), "eight pods are bound")
            await scheduler.bindings.finish()
            calls = Counter(scheduler.client.calls)
        assert calls["POST pods/binding"] == calls["POST events"] == 8
        assert sum(n for kind, n in calls.items() if not kind.startswith(("GET", "WATCH"))) == 16
        used: Counter[tuple[str, int]] = Counter()
        for one in bound.values():
            devices = device_mask(one["metadata"]["annotations"]["alibabacloud.com/gpu-index"])
            assert devices.bit_count() == 1
            used[one["spec"]["nodeName"], devices] += 400
            assert condition(one)["status"] == "True"
        assert max(used.values()) <= 1000
        assert len(used) == 4  # two shares on each of four devices
        events, _ = await client.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        ours = [event for event in events if event["reportingController"] == namespace]
        assert {event["reason"] for event in ours} == {"Scheduled"}
        assert len(ours) == 8
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


def test_a_pod_that_fits_nowhere_says_why_and_goes_when_a_node_comes(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        async def waits() -> Json | None:
            found = condition((await pods_of(client, namespace))["large"])
            # A node that has just come is still tainted for a moment; the message follows it.
            ready = "Insufficient cpu" in found.get("message", "")
            return found if found.get("reason") == "Unschedulable" and ready else None

        await add(client, own_nodes(namespace, 1))
        async with a_scheduler(lab, "pilotage=best-fit"):
            await make(client, namespace, for_test(namespace, "large", cpu="9"))
            found = await eventually(waits, "the pod is unschedulable for its CPU")
            message = found["message"]
            assert message.startswith("0/")
            assert "1 Insufficient cpu" in message
            assert "node(s) didn't match Pod's node affinity/selector" in message
            larger = [replace(own_nodes(namespace, 1)[0], name=f"{namespace}-large", cpu_milli=16_000)]
            await add(client, larger)
            bound = await eventually(lambda: all_bound(client, namespace, 1), "the pod is bound")
        assert bound["large"]["spec"]["nodeName"] == f"{namespace}-large"
        await remove(client, [f"{namespace}-0", f"{namespace}-large"])

    live(lab, test)


def test_gates_other_schedulers_and_profiles(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 2))
        select: dict[str, Any] = {"nodeSelector": {"test": namespace}}
        await make(
            client,
            namespace,
            pod("gated", scheduler="packs", schedulingGates=[{"name": "x/later"}], **select),
            pod("stranger", scheduler="nobody", **select),
            *(pod(f"packs-{i}", scheduler="packs", **select) for i in range(4)),
            *(pod(f"spreads-{i}", scheduler="spreads", **select) for i in range(4)),
        )
        async with a_scheduler(lab, "packs=most-allocated", "spreads=least-allocated"):
            bound = await eventually(lambda: all_bound(client, namespace, 8), "eight pods are bound")
            assert {"gated", "stranger"} & set(bound) == set()
            nodes = Counter(one["spec"]["nodeName"] for name, one in bound.items() if name.startswith("packs"))
            assert len(nodes) == 1
            ungated = {"spec": {"schedulingGates": None}}
            await client.patch(f"/api/v1/namespaces/{namespace}/pods/gated", ungated)
            bound = await eventually(lambda: all_bound(client, namespace, 9), "the gated pod is bound")
        assert "stranger" not in bound
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


async def ensure_pod_groups(client: Client) -> None:
    """The PodGroups of scheduling.x-k8s.io are served, and found by discovery."""
    await serve_pod_groups(client, *GROUPS.split("/")[2:])


def test_gangs_are_placed_whole_or_not_at_all(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await ensure_pod_groups(client)
        await add(client, own_nodes(namespace, 2))  # room for 16 CPUs
        for name, count in (("small", 3), ("large", 5)):
            body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
            await client.create(f"{GROUPS}/namespaces/{namespace}/podgroups", {**body, "spec": {"minMember": count}})

        def member(group: str, number: int) -> Json:
            labels = {"scheduling.x-k8s.io/pod-group": group}
            return for_test(namespace, f"{group}-{number}", cpu="4", labels=labels)

        async def says(name: str, text: str) -> Json | None:
            found = (await pods_of(client, namespace))[name]
            return found if text in condition(found).get("message", "") else None

        async with a_scheduler(lab, "pilotage=best-fit"):
            await make(client, namespace, *(member("large", i) for i in range(5)))
            await eventually(lambda: says("large-0", "only 4 of the 5 pods"), "the large gang does not fit")
            await make(client, namespace, member("small", 0), member("small", 1))
            await eventually(lambda: says("small-1", "2 of the 3 pods"), "the small gang is not complete")
            await make(client, namespace, member("small", 2))
            bound = await eventually(lambda: all_bound(client, namespace, 3), "the small gang is bound")
        assert set(bound) == {"small-0", "small-1", "small-2"}
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


def test_a_scheduler_that_comes_back_knows_what_the_last_one_did(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 1, gpu_count=2, gpu_model="A"))
        for first, last in ((0, 2), (2, 4)):
            async with a_scheduler(lab, "pilotage=fgd"):
                await make(
                    client, namespace, *(for_test(namespace, f"p{i}", annotations=SHARE) for i in range(first, last))
                )
                bound = await eventually(partial(all_bound, client, namespace, last), "bound")
        used: Counter[str] = Counter()
        for one in bound.values():
            used[one["metadata"]["annotations"]["alibabacloud.com/gpu-index"]] += 400
        assert used == {"0": 800, "1": 800}
        await remove(client, [node.name for node in own_nodes(namespace, 1)])

    live(lab, test)


def test_a_watch_that_ended_and_a_client_that_lists_see_the_same(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        seen: dict[str, str] = {}

        class Follower:
            def listed(self, objects: list[Json]) -> None:
                seen.clear()
                for found in objects:
                    self.changed(found)

            def changed(self, found: Json) -> None:
                seen[found["metadata"]["name"]] = found["metadata"]["resourceVersion"]

            def deleted(self, last: Json) -> None:
                seen.pop(last["metadata"]["name"], None)

        informer = Informer(client, f"/api/v1/namespaces/{namespace}/configmaps", Follower())
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for number in range(5):
            await client.create(path, {"metadata": {"name": f"c{number}"}})
        await client.delete(f"{path}/c0")
        await client.patch(f"{path}/c1", {"data": {"a": "b"}})

        async def same() -> bool | None:
            found, _ = await client.list_all(path)
            return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found} == seen or None

        await eventually(same, "the follower has seen everything")
        assert informer.lists == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    live(lab, test)


def test_one_leads_and_the_other_takes_over(lab: Lab) -> None:
    times = LeaseSettings("a-test", "default", lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.2)
    access = read_kubeconfig(lab.kubeconfig, None, SystemClock())
    first, second = (Lease(access, name, SystemClock(), times) for name in ("first", "second"))

    async def leads(lease: Lease) -> bool | None:
        return lease.leads or None

    async def run() -> None:
        first.start()
        await eventually(lambda: leads(first), "the first one leads")
        second.start()
        first.check()
        with pytest.raises(NotLeadingError):
            second.check()
        await asyncio.to_thread(first.stop)
        await eventually(lambda: leads(second), "the second one leads")
        assert not first.leads
        assert second.transitions == 1
        await asyncio.to_thread(second.stop)

    asyncio.run(run())
