"""Fake nodes of a lab: added, removed, made to fail and to recover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError
from pilotage.kube.many import for_each
from pilotage.lab.components import KUBELET_ALIVE, KUBELET_LABEL
from pilotage.model.clock import Clock, timestamp
from pilotage.model.cluster import Node
from pilotage.model.constraints import Taint
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.workloads.fields import Field
from pilotage.workloads.manifest_writing import node_manifests
from pilotage.workloads.nodespec import HOSTNAME, read_node

NODES = "/api/v1/nodes"
MAX_NODES = 20_000
READY_SECONDS = 600.0
POLL_SECONDS = 0.2

Progress = Callable[[int, int], None]


def numbered(template: Node, count: int, prefix: str, taken: Sequence[str] = ()) -> list[Node]:
    """`count` nodes like the template: prefix-0, prefix-1, ...; names in use are passed over."""
    used, made, number = set(taken), list[Node](), 0
    while len(made) < count:
        name = f"{prefix}-{number}"
        if name not in used:
            made.append(replace(template, name=name))
        number += 1
    return made


def parse_taint(text: str) -> Taint:
    """key=value:Effect or key:Effect, as kubectl writes it."""
    body, colon, effect = text.rpartition(":")
    key, _, value = body.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        expected = "key=value:NoSchedule (or PreferNoSchedule, NoExecute)"
        raise InputError(f"{text[:80]!r} is no taint", field="--taint", expected=expected)
    return Taint(key, value, effect)  # type: ignore[arg-type]


def manifest(node: Node) -> Json:
    """As a kubelet would register it, with the label by which kwok knows that it plays this one."""
    (content,) = node_manifests([node])
    found: Json = content
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", HOSTNAME: node.name}
    found["metadata"]["labels"] = labels | found["metadata"]["labels"] | {KUBELET_LABEL: KUBELET_ALIVE}
    return found


async def add(client: Client, nodes: Sequence[Node], progress: Progress = lambda done, total: None) -> None:
    """Creates them all; a name that is there already is an error, after the others."""
    if len(nodes) > MAX_NODES:
        raise InputError(f"{len(nodes)} nodes", expected=f"at most {MAX_NODES}")
    there: list[str] = []

    async def one(node: Node) -> None:
        try:
            await client.create(NODES, manifest(node))
        except KubeError as error:
            if error.status != 409:
                raise
            there.append(node.name)

    await for_each(nodes, one, progress)
    if there:
        problem = f"{len(there)} were there already: {', '.join(sorted(there)[:5])}"
        raise InputError(problem, expected="other names (--prefix), or pilotage lab nodes remove before")


async def names(client: Client) -> list[str]:
    found, _ = await client.list_all(NODES)
    return [node["metadata"]["name"] for node in found]


async def described(client: Client) -> list[Node]:
    """The nodes that are there, as the model knows them."""
    found, _ = await client.list_all(NODES)
    return [read_node(Field(node, f"node {node['metadata']['name']}", 1, 1)) for node in found]


async def until_ready(client: Client, count: int, clock: Clock) -> None:
    """So many nodes are ready, and no controller has a taint on them any more."""
    deadline = clock.now() + READY_SECONDS
    while (ready := await _count_ready(client)) < count:
        if clock.now() > deadline:
            raise InputError(f"{ready} of {count} nodes are ready after {READY_SECONDS:g} s", expected="kwok to run")
        await asyncio.sleep(POLL_SECONDS)


async def until_none_is_ready(client: Client, clock: Clock) -> None:
    """Whoever watches over nodes has found that nothing is heard of them."""
    deadline = clock.now() + READY_SECONDS
    while ready := await _count_ready(client):
        if clock.now() > deadline:
            expected = "kube-controller-manager to run, and kwok not to"
            raise InputError(f"{ready} nodes are ready after {READY_SECONDS:g} s", expected=expected)
        await asyncio.sleep(POLL_SECONDS)


async def _count_ready(client: Client) -> int:
    found, _ = await client.list_all(NODES)
    return sum(map(_is_ready, found))


def _is_ready(node: Json) -> bool:
    conditions = node["status"].get("conditions") or ()
    taints = node["spec"].get("taints") or ()
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


async def remove(client: Client, wanted: Sequence[str]) -> None:
    await _expect_known(client, wanted)
    await for_each(wanted, lambda name: client.delete(f"{NODES}/{name}"))


async def fail(client: Client, wanted: Sequence[str], clock: Clock) -> None:
    """The nodes' kubelets fall silent, and the node is seen not to be ready: controllers taint it within seconds."""
    await _expect_known(client, wanted)
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "LabFailure",
        "message": "made to fail by pilotage lab nodes fail",
        "lastHeartbeatTime": timestamp(clock.wall()),
        "lastTransitionTime": timestamp(clock.wall()),
    }

    async def one(name: str) -> None:
        await client.patch(f"{NODES}/{name}", {"metadata": {"labels": {KUBELET_LABEL: "failed"}}})
        await client.patch(f"{NODES}/{name}/status", {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)

    await for_each(wanted, one)


async def recover(client: Client, wanted: Sequence[str]) -> None:
    await _expect_known(client, wanted)
    body = {"metadata": {"labels": {KUBELET_LABEL: KUBELET_ALIVE}}}
    await for_each(wanted, lambda name: client.patch(f"{NODES}/{name}", body))


async def _expect_known(client: Client, wanted: Sequence[str]) -> None:
    known = await names(client)
    for name in wanted:
        if name not in known:
            raise UnknownNameError("node", name, known)
