"""Each part in a lab with the rights of its account in the chart: they are enough, and none is too many."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl

import aiohttp
import pytest

from deploy.chart import NAMESPACE, account_of, of_kind, path_of, rendered
from lab.labs import a_lab, eventually, make_namespace, pod
from pilotage.dashboard.watching import WatchedCluster
from pilotage.kube.access import Access, read_kubeconfig
from pilotage.kube.answers import Answer
from pilotage.kube.client import Client, Json
from pilotage.kube.connections import Connections, Stream
from pilotage.kube.errors import KubeError
from pilotage.kube.lease import Lease, LeaseSettings, NotLeadingError
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.namespaces import ensure
from pilotage.lab.nodes import add, numbered
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.policies.registry import find_policy
from pilotage.scheduler.advising import Adviser
from pilotage.scheduler.run import Scheduler
from pilotage.serving.run import Serving, Settings

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = "pilotage-scheduler"
TIMES = LeaseSettings(LEASE, "kube-system", lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.2)
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REFUSED = 403
POLICY = "best-fit"

Done = Callable[[], bool]
Work = Callable[[Access, Client, str, Done], Awaitable[None]]  # of a part, in a namespace, until it is done


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


class Part(NamedTuple):
    """Of the chart: the release it is rendered as, the values that switch it on, its account, and what it does."""

    release: str
    values: tuple[str, ...]
    account: str  # its roles have the same name
    work: Work


@dataclass(frozen=True)
class Rights:
    """Of one part, as the chart says."""

    part: Part
    documents: list[Json]

    @property
    def roles(self) -> dict[str, Json]:
        kinds = ("ClusterRole", "Role")
        found = {kind: of_kind(self.documents, kind).get(self.part.account) for kind in kinds}
        return {kind: role for kind, role in found.items() if role is not None}

    @property
    def granted(self) -> dict[Permission, str]:
        return {permission: kind for kind, role in self.roles.items() for permission, _ in single(role["rules"])}

    async def settled(self, admin: Client, *, without: Permission | None = None) -> None:
        """Waits until the API server, which hears of roles a moment later, grants all of it but that."""
        wanted = {permission: permission != without for permission in self.granted}

        async def ask() -> bool | None:
            return True if {one: await self._allowed(admin, one) for one in wanted} == wanted else None

        await eventually(ask, f"{self.part.account} may do all but {without}")

    async def _allowed(self, admin: Client, permission: Permission) -> bool:
        resource, _, subresource = permission.resource.partition("/")
        attributes = {"verb": permission.verb, "group": permission.group, "resource": resource}
        if subresource:
            attributes["subresource"] = subresource
        if self.granted[permission] == "Role":
            attributes |= {"namespace": "kube-system", "name": LEASE}
        user = f"system:serviceaccount:{NAMESPACE}:{self.part.account}"
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        review = await admin.create(REVIEWS, {**body, "spec": {"user": user, "resourceAttributes": attributes}})
        return bool(review["status"]["allowed"])


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
        ask, stream = Connections.ask, Connections.stream

        async def asking(
            connections: Connections, request: bytes, before_send: Callable[[], None] | None = None
        ) -> Answer:
            answer = await ask(connections, request, before_send)
            self._note(request, answer.status)
            return answer

        @asynccontextmanager
        async def streaming(connections: Connections, request: bytes, idle_seconds: float) -> AsyncIterator[Stream]:
            async with stream(connections, request, idle_seconds) as found:
                self._note(request, found.answer.status)
                yield found

        monkeypatch.setattr(Connections, "ask", asking)
        monkeypatch.setattr(Connections, "stream", streaming)

    def _note(self, request: bytes, status: int) -> None:
        head = request.partition(b"\r\n\r\n")[0].decode()
        if "\r\nAuthorization: Bearer " not in head:
            return  # the account has a token, the lab's own users have certificates
        method, target, _ = head.partition("\r\n")[0].split(" ")
        path, _, query = target.partition("?")
        permission = asked(method, path, dict(parse_qsl(query)))
        if permission is not None:
            self.statuses.setdefault(permission, set()).add(status)


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


async def schedule(access: Access, admin: Client, namespace: str, done: Done) -> None:
    """With a lease, a pod that fits, one that does not, one that is evicted, and a conflict."""
    await admin.delete(LEASES, fieldSelector=f"metadata.name={LEASE}")  # that of the test before
    for name, cpu in (("fits", "10m"), ("large", "900"), ("goes", "800")):
        manifest = pod(name, scheduler="pilotage", cpu=cpu)
        await admin.create(f"/api/v1/namespaces/{namespace}/pods", manifest)
    async with Client(access) as client:
        lease = Lease(access, "one", SystemClock(), TIMES)
        scheduler = Scheduler(client, {"pilotage": find_policy(POLICY)}, SystemClock(), lease=lease)
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


async def advise(access: Access, admin: Client, namespace: str, done: Done) -> None:
    async with Client(access) as client:
        stop = asyncio.Event()
        adviser = Adviser(client, {"default-scheduler": find_policy(POLICY)}, SystemClock())
        running = asyncio.create_task(adviser.run(stop))
        try:
            await until(done)
        finally:
            stop.set()
            await running


async def serve(access: Access, admin: Client, namespace: str, done: Done) -> None:
    """Binds a pod for kube-scheduler, and again, which is a conflict."""
    nodes, _ = await admin.list_all("/api/v1/nodes")
    made = await admin.create(f"/api/v1/namespaces/{namespace}/pods", pod("one", scheduler="elsewhere", cpu="10m"))
    places = itertools.cycle((nodes[0]["metadata"]["name"], "elsewhere"))
    asked_for = {"PodName": "one", "PodNamespace": namespace, "PodUID": made["metadata"]["uid"]}
    async with Serving(Settings((POLICY,), port=0, access=access), SystemClock()).running() as serving:

        async def ask() -> bool | None:
            url = f"http://127.0.0.1:{serving.port}/extender/bind"
            async with aiohttp.ClientSession() as session:
                await session.post(url, json={**asked_for, "Node": next(places)})
            return done() or None

        await eventually(ask, "all requests have been made")


async def show(access: Access, admin: Client, namespace: str, done: Done) -> None:
    async with Client(access) as client:
        watching = asyncio.create_task(WatchedCluster(client, SystemClock()).run())
        try:
            await until(done)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def until(done: Done) -> None:
    async def ask() -> bool | None:
        return done() or None

    await eventually(ask, "all requests have been made")


PARTS = {
    "scheduler": Part("pilotage", (), "pilotage-scheduler", schedule),
    "adviser": Part("adviser", ("scheduler.mode=advise",), "adviser-pilotage-scheduler", advise),
    "service": Part("pilotage", ("service.enabled=true", "service.binds=true"), "pilotage-service", serve),
    "dashboard": Part("pilotage", ("dashboard.enabled=true",), "pilotage-dashboard", show),
}
RIGHTS = {name: Rights(part, rendered(*part.values, release=part.release)) for name, part in PARTS.items()}
EACH = [(name, permission) for name, rights in RIGHTS.items() for permission in rights.granted]


async def work(lab: Lab, admin: Client, rights: Rights, done: Done, *, without: Permission | None = None) -> None:
    """A part does what it does until `done`, with its rights, or with all but one of them."""
    access = read_kubeconfig(await account_of(lab, rights.part.account, rights.documents), None, SystemClock())
    namespace = await make_namespace(admin)
    kind = rights.granted[without] if without is not None else "ClusterRole"
    role = rights.roles[kind]
    fewer = [rule for one, rule in single(role["rules"]) if one != without]
    path = f"{path_of(role)}/{rights.part.account}"
    await admin.patch(path, {"rules": fewer})
    try:
        await rights.settled(admin, without=without)
        await rights.part.work(access, admin, namespace, done)
    finally:
        await admin.patch(path, {"rules": role["rules"]})
        await rights.settled(admin)  # the next test begins with all of them
        await admin.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")


@pytest.mark.parametrize("part", RIGHTS)
def test_its_account_may_do_all_that_a_part_does_and_no_more(part: str, gang_lab: Lab, answers: Answers) -> None:
    rights = RIGHTS[part]
    in_lab(gang_lab, lambda admin: work(gang_lab, admin, rights, lambda: set(rights.granted) <= set(answers.statuses)))
    assert answers.refused() == set()
    assert set(answers.statuses) == set(rights.granted)


@pytest.mark.parametrize(("part", "permission"), EACH, ids=str)
def test_it_misses(part: str, permission: Permission, gang_lab: Lab, answers: Answers) -> None:
    """Without one of its permissions a part is refused exactly that."""
    rights = RIGHTS[part]

    def done() -> bool:
        return permission in answers.refused()

    in_lab(gang_lab, lambda admin: work(gang_lab, admin, rights, done, without=permission))
    assert answers.refused() == {permission}
