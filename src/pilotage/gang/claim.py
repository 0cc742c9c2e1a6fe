"""Whose the pods of a job are: a Lease in their namespace, held by one run at a time.

Pods of a job have fixed names, so two coordinators of it would end each other's. Who begins takes the Lease first and
renews it; a run that was killed does not, and loses it. The same run, started again, has it at once.
"""

from __future__ import annotations

import time
from typing import Final

from pilotage.gang.cluster_link import ClusterPlace
from pilotage.gang.meeting import MeetingError
from pilotage.kube.client import Client
from pilotage.kube.errors import KubeError
from pilotage.kube.gang_pods import get_if_there
from pilotage.kube.lease import Lease, LeaseSettings
from pilotage.model.clock import SystemClock

LOOK_SECONDS: Final = 0.1


class Claim:
    """Of one run on the objects of one name in a namespace."""

    def __init__(self, place: ClusterPlace, name: str, run: str) -> None:
        self._settings = LeaseSettings(name, place.namespace)
        self._lease = Lease(place.access, run, SystemClock(), self._settings)
        self._taken = False

    def take(self) -> None:
        """Waits until an earlier holder that says nothing has lost it; one that is alive is an error."""
        self._taken = True
        self._lease.start()
        until = time.monotonic() + self._settings.lease_seconds + 2 * self._settings.renew_seconds
        while not self._lease.leads:
            self._lease.expect_alive()
            name, namespace = self._settings.name, self._settings.namespace
            if self._lease.rival:
                raise MeetingError(
                    f"another run ({self._lease.rival}) has this job in namespace {namespace} (Lease {name}): "
                    "wait for its end, or use another namespace or name of the job"
                )
            if time.monotonic() > until:
                raise MeetingError(f"the Lease {name} in namespace {namespace} cannot be had")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Asked before anything is changed: who was away for long may have lost its pods to another run."""
        if not self._lease.leads:
            holder = f" to {self._lease.rival}" if self._lease.rival else ""
            raise MeetingError(f"the Lease {self._settings.name} was lost{holder}: the pods may be of another run")

    async def leave(self, client: Client) -> None:
        """Gives it back and removes it, unless somebody else has it by now."""
        if not self._taken:
            return
        self._lease.stop()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._settings.namespace}/leases/{self._settings.name}"
        found = await get_if_there(client, path)
        if found is not None and not (found.get("spec") or {}).get("holderIdentity"):
            known = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            try:
                await client.delete(path, {"preconditions": known})
            except KubeError as error:
                if error.status not in (404, 409):  # gone, or taken meanwhile
                    raise
