"""An API server in memory: as much as a scheduler needs, with faults that tests choose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import orjson
from aiohttp import web

from kube.objects import a_node, a_pod
from kube.servers import a_client
from pilotage.kube.access import Tokens
from pilotage.kube.client import Client, Json
from pilotage.model.clock import SystemClock
from pilotage.policies.registry import find_policy
from pilotage.scheduler.run import Scheduler, Settings

LISTS = {
    "/api/v1/namespaces": "namespaces",
    "/api/v1/nodes": "nodes",
    "/api/v1/pods": "pods",
    "/apis/policy/v1/poddisruptionbudgets": "poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims": "persistentvolumeclaims",
    "/api/v1/persistentvolumes": "persistentvolumes",
    "/apis/storage.k8s.io/v1/csinodes": "csinodes",
    "/apis/storage.k8s.io/v1/volumeattachments": "volumeattachments",
    "/apis/resource.k8s.io/v1/deviceclasses": "deviceclasses",
}
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

Fault = Callable[[web.Request], web.Response | None]


def refused(status: int, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason}, status=status)


class FakeServer:
    """Objects by kind and key; `fault` may answer in its place, before it does anything."""

    def __init__(self, *nodes: Json, gangs: bool = False) -> None:
        self.lists = {**LISTS, **({GROUPS: "podgroups"} if gangs else {})}
        self.objects: dict[str, dict[str, Json]] = {kind: {} for kind in self.lists.values()}
        self.log: list[tuple[int, str, Json | None, Json | None]] = []  # version, kind, object before and now
        self.told = asyncio.Event()
        self.silent = False  # watches are open and tell nothing
        self._dropped = 0
        self.requests: list[str] = []
        self.events: list[Json] = []
        self.before: Fault = lambda request: None
        self.after: Fault = lambda request: None  # a reply in the place of that of a request that was carried out
        for node in nodes or (a_node("n0", "4"),):
            self.put("nodes", node)
        self.put("namespaces", {"metadata": {"name": "default"}})

    # What tests do

    def put(self, kind: str, found: Json) -> None:
        """Adds or replaces."""
        metadata = found["metadata"]
        key = _key(metadata.get("namespace", ""), metadata["name"])
        before = self.objects[kind].get(key)
        metadata["resourceVersion"] = str(100 + len(self.log))
        self.objects[kind][key] = found
        self._tell(kind, before, found)

    def make(self, name: str, **more: Any) -> None:
        self.put("pods", a_pod(name, **more))

    def change(self, name: str, edit: Callable[[Json], object], kind: str = "pods", namespace: str = "default") -> None:
        found = deepcopy(self.objects[kind][_key(namespace, name)])
        edit(found)
        self.put(kind, found)

    def remove(self, name: str, kind: str = "pods", namespace: str = "default") -> None:
        self._tell(kind, self.objects[kind].pop(_key(namespace, name)), None)

    def gang(self, name: str, count: int) -> None:
        self.put("podgroups", {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": count}})

    def node_of(self, name: str) -> str:
        return str(self.objects["pods"][_key("default", name)]["spec"].get("nodeName") or "")

    def message(self, name: str) -> str:
        conditions = self.objects["pods"][_key("default", name)]["status"].get("conditions") or ()
        return next((str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), "")

    def count(self, words: str) -> int:
        """Requests such as "PATCH status"."""
        method, _, end = words.partition(" ")
        return sum(one.startswith(f"{method} ") and one.endswith(f"/{end}") for one in self.requests)

    def _tell(self, kind: str, before: Json | None, now: Json | None) -> None:
        before, now = deepcopy(before), deepcopy(now)
        version = 100 + len(self.log)
        for found in (before, now):
            if found is not None:
                found["metadata"]["resourceVersion"] = str(version)
        self.log.append((version, kind, before, now))
        self._wake()

    def drop_watches(self) -> None:
        """Those that are open end."""
        self._dropped += 1
        self._wake()

    def speak(self) -> None:
        """Watches tell again, also what happened while the server was silent."""
        self.silent = False
        self._wake()

    def _wake(self) -> None:
        told, self.told = self.told, asyncio.Event()
        told.set()

    # What clients ask

    async def answer(self, request: web.Request) -> web.StreamResponse:
        watches = "watch" in request.query
        self.requests.append(f"{'WATCH' if watches else request.method} {request.path}")
        said = self.before(request)
        if said is not None:
            return said
        kind = self.lists.get(request.path)
        if watches and kind is not None:
            return await self._watch(request, kind)
        answer = self._listed(request, kind) if kind is not None else await self._single(request)
        return self.after(request) or answer

    def _listed(self, request: web.Request, kind: str) -> web.Response:
        items = [found for found in self.objects[kind].values() if _selected(found, request)]
        return web.json_response({"items": items, "metadata": {"resourceVersion": str(99 + len(self.log))}})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        seen, dropped = int(request.query["resourceVersion"]), self._dropped
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            for version, what, before, now in self.log[max(0, seen - 99) :]:
                if what == kind and not self.silent:
                    event = _event(before if _selected(before, request) else None, now, request)
                    if event is not None:
                        await stream.write(orjson.dumps(event) + b"\n")
                    seen = version
            if self._dropped > dropped:
                return stream
            told = self.told
            await told.wait()

    async def _single(self, request: web.Request) -> web.Response:
        words = request.path.strip("/").split("/")
        if request.path == "/apis/scheduling.x-k8s.io" and GROUPS in self.lists:
            return web.json_response({"versions": [{"version": "v1alpha1"}]})
        if request.path == GROUPS.removesuffix("/podgroups") and GROUPS in self.lists:
            return web.json_response({"resources": [{"name": "podgroups"}]})
        if words[-1] == "events":
            self.events.append(await request.json())
            return web.json_response({}, status=201)
        key = _key(words[3], words[5]) if words[2:3] == ["namespaces"] and len(words) > 5 else ""
        found = self.objects["pods"].get(key)
        if found is None:
            return refused(404, "NotFound")
        if words[-1] == "binding":
            return self._bind(found["metadata"]["name"], await request.json())
        if words[-1] == "status":
            body = await request.json()
            self.change(found["metadata"]["name"], lambda pod: pod["status"].update(body["status"]))
        return web.json_response(self.objects["pods"][key])

    def _bind(self, name: str, body: Json) -> web.Response:
        if self.node_of(name):
            return refused(409, "Conflict")
        self.change(name, lambda pod: pod["spec"].update(nodeName=body["target"]["name"]))
        return web.json_response({"kind": "Status"}, status=201)


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _event(before: Json | None, now: Json | None, request: web.Request) -> Json | None:
    """As a watch tells it: what leaves its selection is deleted, and sent as it was before."""
    if _selected(now, request):
        return {"type": "ADDED" if before is None else "MODIFIED", "object": now}
    return None if before is None else {"type": "DELETED", "object": before}


def _selected(found: Json | None, request: web.Request) -> bool:
    if found is None:
        return False
    for condition in filter(None, request.query.get("fieldSelector", "").split(",")):
        path, _, value = condition.replace("!=", "=").partition("=")
        part, _, name = path.partition(".")
        if (str(found.get(part, {}).get(name, "")) == value) == ("!=" in condition):
            return False
    return True


@asynccontextmanager
async def scheduling(
    server: FakeServer, *profiles: str, settings: Settings = Settings(), tokens: Tokens | None = None
) -> AsyncIterator[tuple[Scheduler, list[str]]]:
    """A scheduler at work, and the problems that it tells; it is stopped at the end."""
    said: list[str] = []
    async with a_client(server.answer, tokens) as client:
        scheduler = a_scheduler_of(client, *profiles, settings=settings, said=said)
        stop = asyncio.Event()
        task = asyncio.create_task(scheduler.run(stop))
        try:
            await asyncio.wait({asyncio.create_task(scheduler.synced.wait()), task}, return_when="FIRST_COMPLETED")
            yield scheduler, said
        finally:
            stop.set()
            await task


def a_scheduler_of(
    client: Client, *profiles: str, settings: Settings = Settings(), said: list[str] | None = None
) -> Scheduler:
    named = (text.partition("=") for text in profiles or ("pilotage=best-fit",))
    policies = {name: find_policy(policy) for name, _, policy in named}
    told = said if said is not None else []
    return Scheduler(client, policies, SystemClock(), settings, on_problem=told.append)
