"""Everything that a fault can be done to: a lab, schedulers as processes, and pods that arrive."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kube.client import Client
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.lease import identity_start
from pilotage.kube.many import for_each
from pilotage.lab.controlplane import Lab, LabError, wait_ready
from pilotage.lab.faults.history import History
from pilotage.lab.faults.pods import Arriving
from pilotage.lab.ports import is_free
from pilotage.lab.processes import Started, start, stop
from pilotage.model.clock import Clock

SCHEDULER = "pilotage"
LEASE = "lab-faults"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
POLL_SECONDS = 0.05
MOST_SECONDS = 300.0  # that anything may take before the run is given up
RETRY_SECONDS = 0.2
CREATORS = 8  # requests at a time: the scheduler is to be in the middle of it


@dataclass
class Scene:
    """The rounds of one fault."""

    lab: Lab
    client: Client
    clock: Clock
    policy: str
    lease_seconds: float
    away_seconds: float  # how long a program of the lab is gone
    schedulers: list[Started] = field(default_factory=list)

    def begin(self, chance: random.Random) -> None:
        """Another round: what happened before is forgotten."""
        self.chance, self.history = chance, History(self.clock)
        self.deleted: set[str] = set()  # nodes

    def __post_init__(self) -> None:
        self.begin(random.Random(0))  # noqa: S311

    # Schedulers

    def start_scheduler(self) -> Started:
        command = [sys.executable, "-m", "pilotage", "schedule", "--profile", f"{SCHEDULER}={self.policy}"]
        command += ["--kubeconfig", str(self.lab.kubeconfig_of("kube-scheduler"))]
        command += ["--lease-name", LEASE, "--lease-seconds", f"{self.lease_seconds:g}"]
        process = start(SCHEDULER, command, self.lab.log(SCHEDULER), self.lab.directory)
        self.schedulers.append(process)
        return process

    async def stop_schedulers(self) -> None:
        for process in self.schedulers:
            await asyncio.to_thread(stop, process, self.clock)
        self.schedulers.clear()

    async def leader(self) -> Started | None:
        """The scheduler that the lease names."""
        try:
            found = await self.client.get(f"{LEASES}/{LEASE}")
        except (KubeError, UnreachableError):
            return None
        holder = (found.get("spec") or {}).get("holderIdentity") or ""
        return next((one for one in self.schedulers if holder.startswith(identity_start(one.pid))), None)

    async def until_led(self, other_than: Started | None = None) -> Started:
        """A scheduler that leads; `other_than`: not this one."""
        deadline = self.clock.now() + MOST_SECONDS
        while True:
            found = await self.leader()
            if found is not None and found != other_than:
                return found
            for process in self.schedulers:
                if not process.alive:
                    raise LabError(self.lab.ended(SCHEDULER))
            self._give_up_at(deadline, "no scheduler leads")
            await asyncio.sleep(POLL_SECONDS)

    # Programs of the lab

    async def restart(self, component: str, signal: int) -> None:
        """Ends a program the hard way and starts it again."""
        process = self.lab.processes[component]
        process.signal(signal)
        await self.until(lambda: not process.alive, f"{component} has ended")
        port = self.lab.ports[component]  # threads that end after the first one may still hold it
        await self.until(lambda: is_free(port), f"port {port} of {component} is free")
        self.lab = self.lab.started(component)
        await asyncio.to_thread(wait_ready, self.lab, component, self.clock)

    # Waiting

    async def until(self, true: Callable[[], bool], what: str) -> None:
        deadline = self.clock.now() + MOST_SECONDS
        while not true():
            self._give_up_at(deadline, what)
            await asyncio.sleep(POLL_SECONDS)

    def _give_up_at(self, deadline: float, what: str) -> None:
        if self.clock.now() > deadline:
            raise LabError(f"not within {MOST_SECONDS:g} s: {what}\n{self.lab.ended(SCHEDULER, 'said')}")

    async def until_bound(self, more: int) -> None:
        """So many more pods are bound than now."""
        wanted = self.history.bound + more
        await self.until(lambda: self.history.bound >= wanted, f"{wanted} pods are bound")

    async def arrive(self, arriving: Arriving) -> None:
        """Makes the pods, each until it is there, whatever happens to the API server meanwhile."""

        async def one(entry: tuple[str, dict[str, object]]) -> None:
            path, body = entry
            deadline = self.clock.now() + MOST_SECONDS
            while True:
                try:
                    await self.client.create(path, body)
                    return
                except UnreachableError:
                    pass
                except KubeError as error:
                    if error.status == 409:
                        return  # an answer was lost, not the pod
                    if error.status < 500 and error.status != 429:
                        raise
                self._give_up_at(deadline, "a pod is made")
                await asyncio.sleep(RETRY_SECONDS)

        await for_each(arriving.bodies, one, at_once=CREATORS)
