"""Measuring tasks in pods: one pod per measurement, under the CPU limit of the cell.

The container measures itself and says so in its termination message: times of pods have whole seconds.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Final

from pilotage.gang.claim import Claim
from pilotage.gang.cluster_link import ClusterLink, ClusterPlace
from pilotage.gang.profiling import Cell, ProfilingError
from pilotage.kube.client import Json
from pilotage.kube.gang_pods import delete_if_there, get_if_there

CONTAINER: Final = "work"
PROFILE_LABEL: Final = "pilotage/profile"  # its value is the name of the job
LOOK_SECONDS: Final = 0.3
MESSAGE: Final = "/dev/termination-log"
MESSAGE_VARIABLE: Final = "PILOTAGE_MESSAGE"  # where the measurement is written
_SCRIPT: Final = (
    'began=$(date +%s%N); "$@"; code=$?; ended=$(date +%s%N); '
    f'echo "$((ended - began))" > "${MESSAGE_VARIABLE}"; exit $code'
)


class PodRunner:
    """Runs the command of a task in a pod of its own."""

    def __init__(
        self,
        command: Callable[[str, float], list[str]],
        place: ClusterPlace,
        name: str,
        run: str,
        timeout: float = 3600.0,
    ) -> None:
        """`name` is that of the job, `run` that of this profile: of several at once one may measure in a namespace."""
        self._command, self._place, self._timeout = command, place, timeout
        self._pod_name, self._labels = f"{name}-profile", {PROFILE_LABEL: name}
        self._claim, self._claimed = Claim(place, f"{name}-profile", run), False
        self._link = ClusterLink(place.access)

    def measure(self, cell: Cell) -> float:
        if self._claimed:
            self._claim.check()
        else:
            self._claim.take()
            self._claimed = True
        return self._link.do(self._measured(cell))

    def close(self) -> None:
        """No pod of ours is left."""
        try:
            if self._claimed:
                self._claim.check()
                self._link.do(self._clear())
        finally:
            self._link.do(self._claim.leave(self._link.client))
            self._link.close()

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._place.namespace}/pods/{self._pod_name}"

    def pod(self, cell: Cell) -> Json:
        share = {"cpu": f"{cell.share}m"}
        container = {
            "name": CONTAINER,
            "image": self._place.image,
            "command": ["/bin/sh", "-c", _SCRIPT, "measured", *self._command(cell.task, cell.size)],
            "env": [{"name": MESSAGE_VARIABLE, "value": MESSAGE}],
            "terminationMessagePath": MESSAGE,
            "resources": {"requests": share, "limits": share},
            "securityContext": {"allowPrivilegeEscalation": False},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self._pod_name, "labels": self._labels},
            "spec": {
                "schedulerName": self._place.scheduler,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        }

    async def _measured(self, cell: Cell) -> float:
        client = self._link.client
        await self._clear()
        await self._until_gone()
        await client.create(f"/api/v1/namespaces/{self._place.namespace}/pods", self.pod(cell))
        until = time.monotonic() + self._place.admit_seconds + self._timeout
        while True:
            found = await client.get(self._path)
            if found["status"].get("phase") in ("Succeeded", "Failed"):
                return measured_seconds(found, cell)
            if time.monotonic() > until:
                raise ProfilingError(f"{_words(cell)}: not done in time")
            await asyncio.sleep(LOOK_SECONDS)

    async def _clear(self) -> None:
        """What an earlier profile of this job left is ended; any other pod of the name is left alone and refused."""
        found = await get_if_there(self._link.client, self._path)
        if found is None:
            return
        if self._labels.items() - (found["metadata"].get("labels") or {}).items():
            raise ProfilingError(f"{self._pod_name} is in namespace {self._place.namespace} and not of this profile")
        await delete_if_there(self._link.client, self._path)

    async def _until_gone(self) -> None:
        until = time.monotonic() + self._place.admit_seconds
        while time.monotonic() < until:
            if await get_if_there(self._link.client, self._path) is None:
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise ProfilingError(f"the pod {self._pod_name} does not go")


def measured_seconds(pod: Json, cell: Cell) -> float:
    """What the container of a pod that has ended says it took."""
    for status in pod["status"].get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended is not None:
            if ended.get("exitCode"):
                raise ProfilingError(f"{_words(cell)}: ended with code {ended['exitCode']}")
            message = str(ended.get("message") or "").strip()
            if re.fullmatch(r"\d{1,18}", message):
                return int(message) / 1e9
    raise ProfilingError(f"{_words(cell)}: the pod does not say how long it took")


def _words(cell: Cell) -> str:
    return f"{cell.task} at size {cell.size:g}, share {cell.share}"
