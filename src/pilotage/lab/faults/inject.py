"""The faults. Each is done while pods arrive and are bound, and returns when what was taken away is back.

A fault that had no effect proves nothing: where it can be seen whether it took hold, the fault looks.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pilotage.kube.access import Access
from pilotage.kube.client import Client
from pilotage.kube.watch import LISTED_AGAIN
from pilotage.lab import components
from pilotage.lab.controlplane import LabError, wait_ready
from pilotage.lab.faults.scene import SCHEDULER, Scene
from pilotage.lab.nodes import names, remove, until_none_is_ready, until_ready
from pilotage.lab.ports import LOOPBACK

NODES_DELETED = 0.2  # share of the nodes that have pods on them


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to make things go wrong."""

    name: str
    meaning: str
    inject: Callable[[Scene], Awaitable[None]]
    replicas: int = 1
    lease_seconds: float = 3.0
    replaced: bool = False  # pods come again when they are lost with their node


async def kill_scheduler(scene: Scene) -> None:
    leader = await scene.until_led()
    leader.signal(signal.SIGKILL)
    scene.schedulers.remove(leader)
    scene.start_scheduler()
    await scene.until_led()  # not before the lease of the one that was killed has run out


async def kill_api_server(scene: Scene) -> None:
    await scene.restart(components.API, signal.SIGKILL)


async def kill_etcd(scene: Scene) -> None:
    await scene.restart(components.ETCD, signal.SIGKILL)
    await asyncio.to_thread(wait_ready, scene.lab, components.API, scene.clock)


async def expire_watches(scene: Scene) -> None:
    """The scheduler is away while the versions it knows are thrown away, in the store and in the API server.

    Its lease lasts longer than that: with another turn all would be listed anyway.
    """
    leader = await scene.until_led()
    log = scene.lab.log(SCHEDULER)
    before = log.read_bytes().count(LISTED_AGAIN.encode())
    leader.signal(signal.SIGSTOP)
    try:
        await scene.client.create("/api/v1/namespaces", {"metadata": {"generateName": "newer-than-the-watch-"}})
        await compact(scene)
        await scene.restart(components.API, signal.SIGKILL)
    finally:
        leader.signal(signal.SIGCONT)
    await scene.until(lambda: log.read_bytes().count(LISTED_AGAIN.encode()) > before, "a watch was found too old")


async def compact(scene: Scene) -> None:
    """Forgets all versions in etcd but the newest."""
    directory = scene.lab.directory
    tls = ssl.create_default_context(cafile=str(directory / "etcd-ca.crt"))
    tls.load_cert_chain(directory / "etcd.crt", directory / "etcd.key")
    async with Client(Access(f"https://{LOOPBACK}:{scene.lab.ports[components.ETCD]}", tls)) as client:
        status = await client.create("/v3/maintenance/status", {})
        await client.create("/v3/kv/compaction", {"revision": status["header"]["revision"]})


async def pause_leader(scene: Scene) -> None:
    """Another takes over and binds; then the first goes on where it was, in the middle of its bindings."""
    leader = await scene.until_led()
    leader.signal(signal.SIGSTOP)
    try:
        await scene.until_led(other_than=leader)
        before = scene.history.bound
        await scene.until(lambda: scene.history.bound > before or not scene.history.waiting, "the other one binds")
    finally:
        leader.signal(signal.SIGCONT)


async def delete_nodes(scene: Scene) -> None:
    """Pods on them are lost; controllers make others in their place once they have noticed, after a minute."""
    used = sorted({stay.pod.node for stay in scene.history.stays.values() if stay.until is None})
    chosen = scene.chance.sample(used, max(1, int(NODES_DELETED * len(used))))
    scene.deleted |= set(chosen)
    await remove(scene.client, chosen)
    await scene.until(
        lambda: not any(pod.node in scene.deleted for pod in scene.history.pods.values()),
        "pods of deleted nodes are gone",
    )


async def stop_kwok(scene: Scene) -> None:
    """No kubelet answers: pods that are bound do not run, leases of nodes are not renewed.

    Before the nodes are found dead, a scheduler cannot notice: so long it lasts at least.
    """
    scene.lab.processes[components.KWOK].signal(signal.SIGKILL)
    await asyncio.sleep(scene.away_seconds)
    if scene.lab.processes[components.KWOK].alive:
        raise LabError("kwok did not end")
    await until_none_is_ready(scene.client, scene.clock)
    scene.lab = scene.lab.started(components.KWOK)
    await until_ready(scene.client, len(await names(scene.client)), scene.clock)


FAULTS = (
    Fault("scheduler-killed", "SIGKILL of the scheduler, a new one at once; lease of 3 s", kill_scheduler),
    Fault("scheduler-killed-15s", "the same with the usual lease of 15 s", kill_scheduler, lease_seconds=15.0),
    Fault("leader-paused", "two replicas; the leader stopped (SIGSTOP) and let go on", pause_leader, replicas=2),
    Fault("api-server-killed", "SIGKILL of the API server, started again", kill_api_server),
    Fault("etcd-killed", "SIGKILL of etcd, started again", kill_etcd),
    Fault(
        "watch-expired",
        "versions that the scheduler's watches go on from are compacted away",
        expire_watches,
        lease_seconds=60.0,
    ),
    Fault("nodes-deleted", "a fifth of the nodes deleted with pods on them", delete_nodes, replaced=True),
    Fault("kwok-gone", "no kubelets for a while", stop_kwok),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
