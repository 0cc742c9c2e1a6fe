"""Telling the API server where a pod goes, and everybody why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.podview import GPU_INDEX, PodView, gpu_index
from pilotage.model.clock import Clock, timestamp

Result = Literal["bound", "elsewhere", "gone", "failed", "unknown"]

ASK_AGAIN = (401, 429)  # says nothing about the pod: a token that is being replaced, a busy server
NOTE_LIMIT = 1024  # characters of an event's note
BUDGET = "DisruptionBudget"  # the cause of a refused eviction
REPORTER = "pilotage-scheduler"  # of events about pods that another scheduler may have placed


@dataclass
class Binder:
    """Writes bindings, events and conditions of one scheduler."""

    client: Client
    clock: Clock
    instance: str  # of this process, for events
    may_write: Callable[[], None] = lambda: None  # raises when this process does not lead any more
    on_problem: Callable[[str], None] = lambda text: None
    _events: int = 0

    async def bind(self, pod: PodView, node: str, devices: int, annotations: dict[str, str] | None = None) -> Result:
        """The devices travel in the annotations of the binding: the API server writes both at once.

        "unknown": it may have been written, and nobody can be asked now. `look_up` tells later.
        """
        written = dict(annotations or {})
        if devices:
            written[GPU_INDEX] = gpu_index(devices)
        metadata: Json = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if written:
            metadata["annotations"] = written
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self.client.request("POST", f"{_path(pod)}/binding", body=body, before_send=self.may_write)
        except KubeError as error:
            if error.status == 404:
                return "gone"
            if 400 <= error.status < 500 and error.status != 409:
                return "failed"
        except UnreachableError:
            pass
        else:
            return "bound"
        return await self.look_up(pod, node)

    async def look_up(self, pod: PodView, node: str) -> Result:
        """After a conflict, a fault of the server (it may have written first) or a lost reply only the pod can tell."""
        try:
            found = await self.client.get(_path(pod))
        except KubeError as error:
            if error.status == 404:
                return "gone"
            return "unknown" if error.status in ASK_AGAIN or error.status >= 500 else "failed"
        except UnreachableError:
            return "unknown"
        if found["metadata"]["uid"] != pod.uid:
            return "gone"
        there = found["spec"].get("nodeName")
        if there:  # also while it is being deleted: it keeps its room there until it has ended
            return "bound" if there == node else "elsewhere"
        return "gone" if "deletionTimestamp" in found["metadata"] else "failed"

    async def tell_bound(self, pod: PodView, node: str) -> None:
        note = f"Successfully assigned {pod.key} to {node}"
        await self._event(pod, "Normal", "Scheduled", "Binding", note)

    async def tell_unschedulable(self, pod: PodView, message: str) -> None:
        """The event, and the condition that autoscalers act on; it is written only when it is news."""
        if pod.condition != message:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(self.clock.wall()),
            }
            body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            await self._patch_status(pod, body)
        await self._event(pod, "Warning", "FailedScheduling", "Scheduling", message, before_send=self.may_write)

    async def nominate(self, pod: PodView, node: str) -> None:
        """Tells everybody that room is being made for the pod there; an empty node takes it back."""
        await self._patch_status(pod, {"status": {"nominatedNodeName": node or None}})

    async def evict(self, pod: PodView, why: str) -> bool:
        """Tells a pod to go, by the API that counts disruption budgets. False: a budget does not allow it (now)."""
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": metadata,
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self.client.request("POST", f"{_path(pod)}/eviction", body=body, before_send=self.may_write, tries=1)
        except KubeError as error:
            if error.status in (404, 409):  # it is gone, or another of that name is there
                return True
            if error.status == 429 and BUDGET in error.causes:  # else the server is busy
                return False
            raise
        try:
            await self._event(pod, "Normal", "Preempted", "Preempting", why, reporter=REPORTER)
        except (KubeError, UnreachableError) as error:  # it goes all the same
            self.on_problem(f"{pod.key} was told to go, but not why: {error}")
        return True

    async def _patch_status(self, pod: PodView, body: Json) -> None:
        await self.client.request(
            "PATCH", f"{_path(pod)}/status", body=body, content_type=STRATEGIC_PATCH, before_send=self.may_write
        )

    async def _event(
        self,
        pod: PodView,
        kind: str,
        reason: str,
        action: str,
        note: str,
        *,
        reporter: str = "",
        before_send: Callable[[], None] | None = None,
    ) -> None:
        self._events += 1
        moment = self.clock.wall()
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{pod.name[:200]}.{int(moment.timestamp() * 1e6):x}{self._events:x}",
                "namespace": pod.namespace,
            },
            "eventTime": timestamp(moment, micro=True),
            "reportingController": reporter or pod.scheduler,
            "reportingInstance": self.instance,
            "action": action,
            "reason": reason,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "note": note[:NOTE_LIMIT],
            "type": kind,
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"
        await self.client.request("POST", path, body=body, before_send=before_send)


def _path(pod: PodView) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
