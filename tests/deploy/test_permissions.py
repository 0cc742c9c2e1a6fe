"""The scheduler in a lab with the rights of the chart's account: they are enough, and none is too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import pytest

from deploy.chart import RBAC, of_kind, rendered, scheduler_account
from lab.labs import a_lab, eventually, make_namespace, pod
from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.kube.lease import Lease, LeaseSettings, NotLeadingError
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.load import ensure
from pilotage.lab.nodes import add, numbered
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.policies.registry import find_policy
from pilotage.scheduler.run import Scheduler

ROLE = "pilotage-scheduler"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TIMES = LeaseSettings(ROLE, "kube-system", lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.2)
REFUSED = 403


class Permission(NamedTuple):
    """One verb on one kind of object."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


def single(rules: list[Json]) -> list[tuple[Permission, Json]]:
    """Rules taken apart into such as grant one permission each."""
    return [
        (Permission(verb, group, resource), {**rule, "verbs": [verb], "apiGroups": [group], "resources": [resource]})
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


DOCUMENTS = rendered()
ROLES = {kind: of_kind(DOCUMENTS, kind)[ROLE] for kind in ("ClusterRole", "Role")}
GRANTED = {permission: kind for kind, role in ROLES.items() for permission, _ in single(role["rules"])}


def asked(method: str, path: str, params: Mapping[str, str] | None) -> Permission | None:
    """What a request needs; None for the discovery of groups, which everybody may read."""
    words = path.strip("/").split("/")
    group, words = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
    if not words:
        return None
    if len(words) > 2 and words[0] == "namespaces":
        words = words[2:]
    resource = "/".join(words[::2])
    single_object = len(words) > 1
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get" if single_object else "list"}
    return Permission("watch" if params and "watch" in params else verbs[method], group, resource)


class Answers:
    """What the API server said to requests of the account, by permission."""

    def __init__(self) -> None:
        self.statuses: dict[Permission, set[int]] = {}

    def refused(self) -> set[Permission]:
        return {permission for permission, statuses in self.statuses.items() if REFUSED in statuses}

    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send: Callable[..., AbstractAsyncContextManager[aiohttp.ClientResponse]] = Client._send

        @asynccontextmanager
        async def recorded(
            client: Client, method: str, path: str, params: Mapping[str, str] | None, *rest: Any
        ) -> AsyncIterator[aiohttp.ClientResponse]:
            async with send(client, method, path, params, *rest) as answer:
                permission = asked(method, path, params) if client.access.tokens is not None else None
                if permission is not None:  # the account has a token, the lab's own users have certificates
                    self.statuses.setdefault(permission, set()).add(answer.status)
                yield answer

        monkeypatch.setattr(Client, "_send", recorded)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    kept = Answers()
    kept.record(monkeypatch)
    return kept


@pytest.fixture(scope="module")
def gang_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that serves all three forms of PodGroups."""
    with a_lab(tmp_path_factory.mktemp("labs"), LabSettings(native_gangs=True, kube_scheduler=False), "rights") as lab:

        async def prepare(client: Client) -> None:
            await add(client, numbered(Node("node", 8_000, 32 * 2**30), 1, "rights"))
            for group, version in (("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")):
                await serve_pod_groups(client, group, version)

        in_lab(lab, prepare)
        yield lab


async def serve_pod_groups(client: Client, group: str, version: str) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "names": {"plural": "podgroups", "kind": "PodGroup", "listKind": "PodGroupList", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }
    await ensure(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)

    async def served() -> bool | None:
        """The scheduler finds groups by discovery, which comes a moment after the objects themselves."""
        try:
            found = await client.get(f"/apis/{group}")
        except KubeError:
            return None
        return any(one["version"] == version for one in found["versions"]) or None

    await eventually(served, f"PodGroups of {group} are served")


async def all_work(lab: Lab, admin: Client, done: Callable[[], bool]) -> None:
    """A scheduler with a lease, a pod that fits, one that does not, one that is evicted, a conflict, until `done`."""
    namespace = await make_namespace(admin)
    await admin.delete(LEASES, fieldSelector=f"metadata.name={ROLE}")  # that of the test before
    for name, cpu in (("fits", "10m"), ("large", "900"), ("goes", "800")):
        manifest = pod(name, scheduler="pilotage", cpu=cpu)
        await admin.create(f"/api/v1/namespaces/{namespace}/pods", manifest)
    access = read_kubeconfig(await scheduler_account(lab), None, SystemClock())
    async with Client(access) as client:
        lease = Lease(access, "one", SystemClock(), TIMES)
        scheduler = Scheduler(client, {"pilotage": find_policy("best-fit")}, SystemClock(), lease=lease)
        stop = asyncio.Event()
        running = asyncio.create_task(scheduler.run(stop))

        async def ask() -> bool | None:
            placed = [one for one in scheduler.cache.pods.values() if one.name == "fits" and one.node]
            if placed:  # it is bound: a second binding is the conflict after which the pod itself is asked
                await scheduler.bindings.binder.bind(placed[0], "elsewhere", 0)
            for victim in [one for one in scheduler.cache.pods.values() if one.name == "goes"]:
                with suppress(KubeError, NotLeadingError):
                    await scheduler.bindings.binder.evict(victim, "for a test")
            return done() or None

        try:
            await eventually(ask, "all requests have been made")
        finally:
            stop.set()
            await running
    await admin.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")


def test_the_account_may_do_all_that_the_scheduler_does_and_no_more(gang_lab: Lab, answers: Answers) -> None:
    def done() -> bool:
        return set(GRANTED) <= set(answers.statuses)

    in_lab(gang_lab, lambda admin: all_work(gang_lab, admin, done))
    assert answers.refused() == set()
    assert set(answers.statuses) == set(GRANTED)


@pytest.mark.parametrize("permission", GRANTED, ids=str)
def test_it_misses(permission: Permission, gang_lab: Lab, answers: Answers) -> None:
    """Without one of its permissions the scheduler is refused exactly that."""
    role = ROLES[GRANTED[permission]]
    place = f"/namespaces/{role['metadata']['namespace']}/roles" if GRANTED[permission] == "Role" else "/clusterroles"
    path = f"{RBAC}{place}/{ROLE}"
    fewer = [rule for one, rule in single(role["rules"]) if one != permission]

    async def test(admin: Client) -> None:
        await scheduler_account(gang_lab)
        await admin.patch(path, {"rules": fewer})
        try:
            await all_work(gang_lab, admin, lambda: permission in answers.refused())
        finally:
            await admin.patch(path, {"rules": role["rules"]})

    in_lab(gang_lab, test)
    assert answers.refused() == {permission}
