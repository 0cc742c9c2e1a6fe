"""Leader election by a Lease, and the fence that keeps a process that was away from writing.

The lease is renewed in a thread of its own: compiling, or reading 50,000 pods, blocks the others for longer than it
may wait. A process leads while its last renewal *began* less than `renew_seconds` ago, by a clock that runs on while
the machine or the process is paused; `check` says so, and is asked just before every binding.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pilotage.kube.access import Access
from pilotage.kube.client import Client, Json
from pilotage.kube.errors import EndedError, KubeError, UnreachableError
from pilotage.model.clock import Clock, timestamp
from pilotage.model.errors import InputError, PilotageError


def own_identity() -> str:
    """Of this process and of no other: containers that share a host name may each be process 1 of it."""
    return identity_start(os.getpid()) + secrets.token_hex(4)


def identity_start(pid: int) -> str:
    """What the identity of a process of this machine begins with."""
    return f"{socket.gethostname()}-{pid}-"


class NotLeadingError(PilotageError):
    """This process does not hold the lease any more: nothing may be written."""


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Times in seconds; the defaults are kube-scheduler's."""

    name: str = "pilotage-scheduler"
    namespace: str = "kube-system"
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0

    def check(self) -> None:
        if not 0 < self.retry_seconds < self.renew_seconds < self.lease_seconds:
            given = f"{self.retry_seconds:g}, {self.renew_seconds:g}, {self.lease_seconds:g} s"
            raise InputError(given, field="lease", expected="retry < renew < lease")


@dataclass
class Lease:
    """Held by at most one of the processes that use its name."""

    access: Access
    identity: str
    clock: Clock
    settings: LeaseSettings = LeaseSettings()
    on_change: Callable[[bool], None] = lambda leads: None
    transitions: int = 0
    rival: str = ""  # who holds it, once seen to renew it: there is nothing to wait for
    term: int = 0  # times that leading began, or went on after a break: others may have written meanwhile
    _renewed: float = float("-inf")  # when the last successful renewal began
    _leads: bool = False
    _seen: tuple[str, str] = ("", "")  # holder and time of renewal as last read
    _seen_at: float = float("-inf")
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _ended_by: BaseException | None = None

    @property
    def leads(self) -> bool:
        return self._leads and self.clock.now() - self._renewed < self.settings.renew_seconds

    def check(self) -> None:
        if not self.leads:
            raise NotLeadingError("the lease was lost; another process may be scheduling")

    def start(self) -> None:
        self.settings.check()
        self._thread = threading.Thread(target=self._thread_main, name="lease", daemon=True)
        self._thread.start()

    def expect_alive(self) -> None:
        """Raises when nobody tries to get the lease any more: this process would wait for its turn for ever."""
        if self._ended_by is not None:
            raise EndedError("renewing the lease", self._ended_by) from self._ended_by

    def stop(self) -> None:
        """Gives the lease back, so that another process need not wait for its end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.settings.renew_seconds)

    def _thread_main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # told by expect_alive, in the thread that decides
            self._ended_by = error

    async def _run(self) -> None:
        async with Client(self.access, agent="pilotage-lease") as client:
            while not self._stop.is_set():
                await self.attempt(client)
                await asyncio.to_thread(self._stop.wait, self.settings.retry_seconds)
            if self._leads:
                await self._release(client)

    async def attempt(self, client: Client) -> None:
        """One try to get or renew the lease."""
        began = self.clock.now()
        try:
            won = await asyncio.wait_for(self._try(client), self.settings.renew_seconds)
        except (KubeError, UnreachableError, TimeoutError):
            won = None  # nobody knows; leading ends by itself when renewals stay away
        if won:
            self.term += not self.leads
            self._renewed = began
        lost = won is False or not (won or self.clock.now() - self._renewed < self.settings.renew_seconds)
        leads = bool(won) or (self._leads and not lost)
        if leads != self._leads:
            self._leads = leads
            self.on_change(leads)

    async def _try(self, client: Client) -> bool:
        try:
            found = await client.get(f"{self._path}/{self.settings.name}")
        except KubeError as error:
            if error.status != 404:
                raise
            await client.create(self._path, self._body({}, fresh=True))
            return True
        spec = found.get("spec") or {}
        seen = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        if seen != self._seen:  # clocks of machines differ: what counts is how long we have not seen it change
            self.rival = seen[0] if seen[0] == self._seen[0] != self.identity else ""
            self._seen, self._seen_at = seen, self.clock.now()
        holder = seen[0]
        lasts = float(spec.get("leaseDurationSeconds") or self.settings.lease_seconds)
        if holder not in ("", self.identity) and self.clock.now() - self._seen_at < lasts:
            return False
        try:
            await client.replace(f"{self._path}/{self.settings.name}", self._body(found, fresh=holder != self.identity))
        except KubeError as error:
            if error.status == 409:  # somebody else was faster
                return False
            raise
        return True

    async def _release(self, client: Client) -> None:
        self._leads = False
        try:
            found = await client.get(f"{self._path}/{self.settings.name}")
            if (found.get("spec") or {}).get("holderIdentity") == self.identity:
                found["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await client.replace(f"{self._path}/{self.settings.name}", found)
        except (KubeError, UnreachableError):
            pass  # it ends by itself
        self.on_change(False)

    def _body(self, found: Json, *, fresh: bool) -> Json:
        now = timestamp(self.clock.wall(), micro=True)
        spec = dict(found.get("spec") or {})
        if fresh:
            self.transitions = int(spec.get("leaseTransitions") or 0) + bool(found)
            spec |= {"acquireTime": now, "leaseTransitions": self.transitions}
        spec |= {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.settings.lease_seconds)),
            "renewTime": now,
        }
        metadata = found.get("metadata") or {"name": self.settings.name, "namespace": self.settings.namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.settings.namespace}/leases"
