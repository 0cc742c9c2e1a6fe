"""Workers of a job as pods: one group, admitted whole; shares changed in place by the resize subresource.

Names of the objects are those of the job, their labels those of the run: what another run made is removed only by a run
that holds the claim on the job.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

from pilotage.gang.claim import Claim
from pilotage.gang.cluster_link import ClusterLink, ClusterPlace
from pilotage.gang.crew import COMMAND, TOKEN
from pilotage.gang.dividing import even_units
from pilotage.gang.job import Job, Task
from pilotage.gang.meeting import MeetingError
from pilotage.kube.client import Json
from pilotage.kube.gang_pods import (
    create_gang,
    delete_groups,
    delete_if_labelled,
    delete_if_there,
    get_if_there,
    group_form,
    in_force,
    resize,
    resize_refused,
)

CONTAINER: Final = "work"
JOB_LABEL: Final = "pilotage/job"
RUN_LABEL: Final = "pilotage/run"
HOST_LABEL: Final = "kubernetes.io/hostname"
LOOK_SECONDS: Final = 0.3


def initial_shares(job: Job) -> dict[str, int]:
    """The same for every task, no more than it and its node may have: milli CPU that pods are made with."""
    return {
        name: job.budget.least + job.budget.step * int(units)
        for name, units in zip(job.names, even_units(job.room()), strict=True)
    }


class ClusterCrew:
    """Like Crew, with pods for processes. `run` is the name of the run, the same when it is gone on with."""

    def __init__(self, job: Job, arguments: Sequence[str], token: str, run: str, place: ClusterPlace) -> None:
        self._job, self._arguments, self._token, self._place = job, tuple(arguments), token, place
        self._run, self._claim = run, Claim(place, f"{job.name}-gang", run)
        self._link = ClusterLink(place.access)
        self._client = self._link.client
        self._shares = initial_shares(job)
        self._started, self._admitted = False, False

    # What Execution asks for

    def start(self, task: str) -> None:
        """All at once with the first: a gang is admitted whole."""
        if not self._started:
            self._started = True
            self._claim.take()
            self._link.do(self._admit())

    def alive(self, task: str) -> bool:
        return self._link.do(self._phase(task)) in ("Pending", "Running")

    def restart(self, task: str) -> None:
        self._claim.check()
        self._link.do(self._again(task))

    def resize(self, share: Mapping[str, int]) -> None:
        """Less before more, so that all together never have more than the budget."""
        self._claim.check()
        self._link.do(self._resize(share))

    def close(self) -> None:
        try:
            if self._admitted:
                self._link.do(self._remove_own())
            self._link.do(self._claim.leave(self._client))
        finally:
            self._link.close()

    # Objects

    def _pod_name(self, task: str) -> str:
        return f"{self._job.name}-{task}"

    def _pod(self, task: Task) -> Json:
        share = {"cpu": f"{self._shares[task.name]}m"}
        command = json.dumps({"command": list(task.command), "workPerSize": task.work_per_size})
        secret = {"secretKeyRef": {"name": self._secret_name, "key": "token"}}
        container = {
            "name": CONTAINER,
            "image": self._place.image,
            "command": ["pilotage", "gang", "worker", "--job", self._job.name, "--task", task.name],
            "args": list(self._arguments),
            "env": [{"name": TOKEN, "valueFrom": secret}, {"name": COMMAND, "value": command}],
            "resources": {"requests": share, "limits": share},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "securityContext": {"allowPrivilegeEscalation": False},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self._pod_name(task.name), "labels": self._labels},
            "spec": {
                "schedulerName": self._place.scheduler,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 5,
                "containers": [container],
                **({"nodeSelector": {HOST_LABEL: task.node}} if task.node else {}),
            },
        }

    def _path(self, task: str) -> str:
        return f"/api/v1/namespaces/{self._place.namespace}/pods/{self._pod_name(task)}"

    @property
    def _group(self) -> str:
        """Of this run alone: a deleted group may stay for a while and bar its name."""
        return f"{self._job.name}-{hashlib.sha256(self._token.encode()).hexdigest()[:8]}"

    @property
    def _secret_name(self) -> str:
        return f"{self._job.name}-gang-token"

    @property
    def _secret_path(self) -> str:
        return f"/api/v1/namespaces/{self._place.namespace}/secrets/{self._secret_name}"

    @property
    def _labels(self) -> dict[str, str]:
        return {JOB_LABEL: self._job.name, RUN_LABEL: self._run}

    async def _admit(self) -> None:
        await self._clear()
        self._admitted = True  # from here on there is something to remove
        namespace = self._place.namespace
        metadata = {"name": self._secret_name, "labels": self._labels}
        secret = {"metadata": metadata, "stringData": {"token": self._token}}
        await self._client.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
        await create_gang(self._client, namespace, self._group, [self._pod(task) for task in self._job.tasks])
        await self._wait_running(self._job.names)

    async def _clear(self) -> None:
        """What an earlier run of the job left is ended first; what is not of this job is left alone and refused."""
        paths = *map(self._path, self._job.names), self._secret_path
        for path in paths:
            found = await get_if_there(self._client, path)
            if found is not None and (found["metadata"].get("labels") or {}).get(JOB_LABEL) != self._job.name:
                raise MeetingError(
                    f"{path.rpartition('/')[2]} is in namespace {self._place.namespace} and not of this job"
                )
        await self._remove(JOB_LABEL, self._job.name)
        until = time.monotonic() + self._place.admit_seconds
        while left := [task for task in self._job.names if await self._phase(task)]:
            if time.monotonic() > until:
                raise MeetingError(f"pods of {', '.join(left)} of an earlier run do not go")
            await asyncio.sleep(LOOK_SECONDS)

    async def _remove_own(self) -> None:
        """Of this run alone: another one may have the job by now."""
        await self._remove(RUN_LABEL, self._run)

    async def _remove(self, label: str, value: str) -> None:
        for task in self._job.names:
            await delete_if_labelled(self._client, self._path(task), label, value)
        await delete_groups(self._client, self._place.namespace, label, value)
        await delete_if_labelled(self._client, self._secret_path, label, value)

    async def _phase(self, task: str) -> str:
        """Empty when there is no such pod."""
        found = await get_if_there(self._client, self._path(task))
        return "" if found is None else str(found["status"].get("phase", ""))

    async def _wait_running(self, tasks: Sequence[str]) -> None:
        until = time.monotonic() + self._place.admit_seconds
        waiting = list(tasks)
        while waiting:
            waiting = [task for task in waiting if not await self._ready(task)]
            if waiting and time.monotonic() > until:
                late = f"after {self._place.admit_seconds:g} s"
                raise MeetingError(f"pods of {', '.join(waiting)} do not run, or cannot be resized, {late}")
            if waiting:
                await asyncio.sleep(LOOK_SECONDS)

    async def _ready(self, task: str) -> bool:
        """It runs, and its kubelet says which CPU it has: before that the API server refuses to resize it."""
        found = await get_if_there(self._client, self._path(task))
        return (
            found is not None and found["status"].get("phase") == "Running" and in_force(found, CONTAINER) is not None
        )

    async def _again(self, task: str) -> None:
        await delete_if_there(self._client, self._path(task))
        until = time.monotonic() + self._place.admit_seconds
        while await self._phase(task):
            if time.monotonic() > until:
                raise MeetingError(f"the pod of {task} does not go")
            await asyncio.sleep(LOOK_SECONDS)
        form = await group_form(self._client)
        pod = self._pod(self._job.tasks[self._job.names.index(task)])
        body = pod if form is None else form.member(pod, self._group)
        await self._client.create(f"/api/v1/namespaces/{self._place.namespace}/pods", body)
        await self._wait_running([task])

    async def _resize(self, share: Mapping[str, int]) -> None:
        changed = [task for task in share if share[task] != self._shares[task]]
        for task in sorted(changed, key=lambda task: share[task] - self._shares[task]):
            await resize(self._client, self._place.namespace, self._pod_name(task), CONTAINER, share[task])
            await self._wait_resized(task, share[task])
            self._shares[task] = share[task]

    async def _wait_resized(self, task: str, milli: int) -> None:
        until = time.monotonic() + self._place.resize_seconds
        while True:
            pod = await self._client.get(self._path(task))
            if in_force(pod, CONTAINER) == milli:
                return
            if time.monotonic() > until:
                reason = resize_refused(pod) or "the kubelet says nothing"
                raise MeetingError(f"{task} has not got its {milli} milli CPU: {reason}")
            await asyncio.sleep(LOOK_SECONDS)
