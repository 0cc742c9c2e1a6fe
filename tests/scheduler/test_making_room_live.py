"""Pods that are told to go, on a real API server: for priority, and because their gang never came together."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lab.labs import a_lab, eventually
from pilotage.kube.client import Client, Json
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab
from pilotage.lab.namespaces import ensure
from pilotage.lab.nodes import add, remove
from pilotage.scheduler.run import Settings
from scheduler.live import a_scheduler, condition
from scheduler.test_live import (
    GROUPS,
    all_bound,
    ensure_pod_groups,
    for_test,
    live,
    make,
    own_nodes,
    pods_of,
)

LABEL = "scheduling.x-k8s.io/pod-group"
NATIVE = "/apis/scheduling.k8s.io/v1alpha2"


async def make_urgent(client: Client) -> None:
    body = {"metadata": {"name": "urgent"}, "value": 1000}
    await ensure(client, "/apis/scheduling.k8s.io/v1/priorityclasses", body)


def test_a_pod_of_lower_priority_goes_and_a_budget_is_kept(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await make_urgent(client)
        pod = partial(for_test, namespace, scheduler=namespace, cpu="4")
        await add(client, own_nodes(namespace, 1))
        budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        await client.create(budgets, {"metadata": {"name": "kept"}, "spec": spec})

        async def budget_known() -> bool | None:
            found = await client.get(f"{budgets}/kept")
            return (found.get("status") or {}).get("currentHealthy") == 1 or None

        async def urgent_bound() -> Json | None:
            found = (await pods_of(client, namespace))["urgent"]
            return found if found["spec"].get("nodeName") else None

        async with a_scheduler(lab, f"{namespace}=best-fit") as scheduler:
            kept = pod("kept", labels={"app": "kept"})
            await make(client, namespace, kept, pod("goes"))
            await eventually(lambda: all_bound(client, namespace, 2), "both are bound")
            await eventually(budget_known, "the budget counts its pod")
            await make(client, namespace, pod("urgent", priorityClassName="urgent"))
            found = await eventually(urgent_bound, "the urgent pod has the room")
            await make(client, namespace, pod("second", priorityClassName="urgent"))

            async def refused() -> bool | None:
                second = condition((await pods_of(client, namespace))["second"])
                return "no pods of lower priority whose leaving would help" in second.get("message", "") or None

            await eventually(refused, "the second one may not have the kept pod's room")
            (decision, *_) = (d for d in scheduler.journal if d.victims)
        assert found["spec"]["nodeName"] == f"{namespace}-0"
        assert decision.pod == f"{namespace}/urgent"
        assert decision.victims == (f"{namespace}/goes",)
        assert set(await pods_of(client, namespace)) == {"kept", "urgent", "second"}
        events, _ = await client.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        assert [e["regarding"]["name"] for e in events if e["reason"] == "Preempted"] == ["goes"]
        await remove(client, [f"{namespace}-0"])

    live(lab, test)


async def bind_by_hand(client: Client, namespace: str, name: str, node: str) -> None:
    """What a scheduler did that crashed before it had bound the rest."""
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await client.create(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)


async def make_gang(client: Client, namespace: str, name: str, count: int, **more: Any) -> None:
    await ensure_pod_groups(client)
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
    await client.create(f"{GROUPS}/namespaces/{namespace}/podgroups", {**body, "spec": {"minMember": count, **more}})


async def owner(client: Client, namespace: str) -> Json:
    """Something that stands for the controller of pods."""
    made = await client.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "owner"}})
    uid = made["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}


def test_the_rest_of_a_gang_that_was_bound_by_halves_is_bound(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await make_gang(client, namespace, "job", 3)
        await add(client, own_nodes(namespace, 2))
        await make(client, namespace, *(for_test(namespace, f"p{i}", cpu="4", labels={LABEL: "job"}) for i in range(3)))
        await bind_by_hand(client, namespace, "p1", f"{namespace}-0")
        async with a_scheduler(lab, "pilotage=best-fit"):
            await eventually(lambda: all_bound(client, namespace, 3), "the gang is whole")
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


def test_a_half_whose_rest_does_not_fit_is_released_in_time(lab: Lab) -> None:
    async def test(client: Client, namespace: str) -> None:
        await make_gang(client, namespace, "job", 3, scheduleTimeoutSeconds=1)
        await add(client, own_nodes(namespace, 1))  # room for two of them
        references = [await owner(client, namespace)]
        member = partial(for_test, namespace, scheduler=namespace, cpu="4", labels={LABEL: "job"})
        manifests = [member(f"p{i}") for i in range(3)]
        for manifest in manifests:
            manifest["metadata"]["ownerReferences"] = references
        await make(client, namespace, *manifests)
        await bind_by_hand(client, namespace, "p0", f"{namespace}-0")

        async def released() -> bool | None:
            return "p0" not in await pods_of(client, namespace) or None

        async def says(text: str) -> bool | None:
            return text in condition((await pods_of(client, namespace))["p1"]).get("message", "") or None

        said: list[str] = []
        async with a_scheduler(lab, f"{namespace}=best-fit", expected=said) as scheduler:
            await eventually(released, "the bound half has gone")
            await eventually(partial(says, "2 of the 3 pods that gang 'job' needs"), "the rest waits for its third pod")
            (decision, *_) = (d for d in scheduler.journal if d.victims)
        assert "did not come together in 1 s: its 1 bound pods are released" in decision.why
        assert len(said) == 1
        await remove(client, [f"{namespace}-0"])

    live(lab, test)


def test_native_groups_are_placed_whole_or_not_at_all(tmp_path: Path) -> None:
    settings = LabSettings(native_gangs=True, kube_scheduler=False)

    def member(namespace: str, group: str, number: int) -> Json:
        joined = {"podGroupName": group}
        return for_test(namespace, f"{group}-{number}", cpu="4", schedulingGroup=joined)

    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 2))  # room for four
        for name, count in (("large", 5), ("small", 3)):
            spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
            body = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": name}}
            await client.create(f"{NATIVE}/namespaces/{namespace}/podgroups", {**body, "spec": spec})

        async def says(name: str, text: str) -> bool | None:
            found = condition((await pods_of(client, namespace))[name])
            return text in found.get("message", "") or None

        async with a_scheduler(lab, "pilotage=best-fit", settings=Settings(gang_seconds=2.0)):
            await make(client, namespace, *(member(namespace, "large", i) for i in range(5)))
            await eventually(partial(says, "large-0", "only 4 of the 5 pods"), "the large gang does not fit")
            await make(client, namespace, *(member(namespace, "small", i) for i in range(2)))
            late = "timed out after 2 s: 2 of the 3 pods that gang 'small' needs are there"
            await eventually(partial(says, "small-0", late), "the small gang is late")
            await make(client, namespace, member(namespace, "small", 2))
            bound = await eventually(lambda: all_bound(client, namespace, 3), "the small gang is bound")
        assert set(bound) == {"small-0", "small-1", "small-2"}

    with a_lab(tmp_path, settings, "native") as lab:
        live(lab, test)
