"""Rounds of a fault: pods arrive, something goes wrong, and when nothing moves any more, it is counted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client
from pilotage.kube.many import together
from pilotage.kube.watch import Informer
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, find_lab
from pilotage.lab.faults.audit import read_bindings
from pilotage.lab.faults.counting import Counts, count
from pilotage.lab.faults.inject import Fault
from pilotage.lab.faults.pods import arriving, nodes_for
from pilotage.lab.faults.scene import SCHEDULER, Scene
from pilotage.lab.gangs import describe_gangs
from pilotage.lab.load import COLLECTIONS, LABEL, LoadSettings, clean
from pilotage.lab.namespaces import ensure_namespace
from pilotage.lab.nodes import add, described, names, remove
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node

AUDIT_LOG = "audit.log"
QUIET_SECONDS = 30.0  # without a binding, while pods wait: what waits then has been lost, if it fits
FILL, FILL_WITHOUT_NODES = 0.9, 0.7  # of the nodes; less where some of them will be deleted
EARLIEST, LATEST = 0.1, 0.7  # share of the pods that is bound when the fault comes

LAB = LabSettings(kube_scheduler=False, audit=True, native_gangs=True, lease_seconds=20)


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """How much of it."""

    pods: int = 200  # that arrive in each round
    policy: str = "fgd"
    seed: int = 0
    away_seconds: float = 60.0  # that kwok is gone
    quiet_seconds: float = QUIET_SECONDS


@dataclass(frozen=True, slots=True)
class Row:
    """What came of the rounds of one fault."""

    fault: str
    rounds: int
    pods: int  # in all
    counts: Counts


def run_rounds(
    name: str,
    fault: Fault,
    rounds: int,
    settings: FaultSettings,
    clock: Clock,
    progress: Callable[[int, Counts], None] = lambda done, counts: None,
) -> Row:
    """In a lab that is up; it has no nodes before and none afterwards."""
    return asyncio.run(_run_rounds(find_lab(name), fault, rounds, settings, clock, progress))


async def _run_rounds(
    lab: Lab,
    fault: Fault,
    rounds: int,
    settings: FaultSettings,
    clock: Clock,
    progress: Callable[[int, Counts], None],
) -> Row:
    total, pods = Counts(), 0
    nodes = nodes_for(settings.pods, FILL_WITHOUT_NODES if fault.replaced else FILL)
    async with Client(read_kubeconfig(lab.kubeconfig, None, clock)) as client:
        scene = Scene(lab, client, clock, settings.policy, fault.lease_seconds, settings.away_seconds)
        try:
            for _ in range(fault.replicas):
                scene.start_scheduler()
            for number in range(rounds):
                there = set(await names(client))
                await add(client, [node for node in nodes if node.name not in there])
                scene.begin(random.Random(f"{settings.seed} {fault.name} {number}"))  # noqa: S311
                found, made = await _round(scene, fault, nodes, f"{fault.name}-{number}", settings)
                total, pods = total + found, pods + made
                progress(number + 1, total)
        finally:
            await scene.stop_schedulers()
        await remove(client, await names(client))
    return Row(fault.name, rounds, pods, total)


async def _round(
    scene: Scene, fault: Fault, nodes: Sequence[Node], namespace: str, settings: FaultSettings
) -> tuple[Counts, int]:
    client, history = scene.client, scene.history
    load = arriving(namespace, SCHEDULER, settings.pods, replaced=fault.replaced)
    await ensure_namespace(client, namespace, scene.clock)
    await describe_gangs(client, load.gangs, namespace, {LABEL: "faults"})
    informer = Informer(client, COLLECTIONS["Pod"].format(namespace), history)
    watching = asyncio.create_task(informer.run())
    try:
        await scene.until_led()
        await together(scene.arrive(load), _go_wrong(scene, fault, load.pods))
        await until_quiet(scene, settings.quiet_seconds, load.pods)
        now = await described(client)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    bindings = read_bindings(scene.lab.directory / AUDIT_LOG, namespace)
    counts = count(history, bindings, nodes, now, load.gangs)
    await clean(client, LoadSettings(namespace, name="faults"), scene.clock)
    return counts, load.pods


async def _go_wrong(scene: Scene, fault: Fault, pods: int) -> None:
    """The fault comes while pods are still being bound."""
    await scene.until_bound(max(1, int(scene.chance.uniform(EARLIEST, LATEST) * pods)))
    await fault.inject(scene)


async def until_quiet(scene: Scene, seconds: float, pods: int) -> None:
    """All pods are there and bound; or nothing was bound for some time, though pods wait."""
    history = scene.history
    began = scene.clock.now()
    while len(history.pods) < pods or history.waiting:
        if scene.clock.now() - max(began, history.progress_at) > seconds:
            return
        await asyncio.sleep(0.05)
