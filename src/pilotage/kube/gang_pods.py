"""Pods that belong together: a PodGroup in the form that the cluster serves, its pods, CPU changed in place."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError
from pilotage.kube.podgroups import GroupForm, served_forms
from pilotage.model.resources import cpu_milli


async def group_form(client: Client) -> GroupForm | None:
    """The first form that is served, the native one before all others; None where there is none."""
    return next(iter(await served_forms(client)), None)


async def create_gang(client: Client, namespace: str, name: str, pods: Sequence[Json]) -> GroupForm:
    """The group first, so that no scheduler sees pods of a group that is not described. It has the pods' labels."""
    form = await group_form(client)
    if form is None:
        raise KubeError(404, "NotFound", "no PodGroup API is served: the pods could be placed in part")
    await client.create(form.path_in(namespace), form.group(name, len(pods), pods[0]["metadata"].get("labels") or {}))
    for pod in pods:
        await client.create(f"/api/v1/namespaces/{namespace}/pods", form.member(pod, name))
    return form


async def delete_gang(client: Client, namespace: str, name: str, pods: Sequence[str]) -> None:
    """Pods, then the group; what is gone already is no fault. A group may stay for a while and bar its name."""
    for pod in pods:
        await delete_if_there(client, f"/api/v1/namespaces/{namespace}/pods/{pod}")
    form = await group_form(client)
    if form is not None:
        await delete_if_there(client, f"{form.path_in(namespace)}/{name}")


async def delete_groups(client: Client, namespace: str, label: str, value: str) -> None:
    """All groups with a label: those of runs that were killed too."""
    form = await group_form(client)
    if form is not None:
        found, _ = await client.list_all(form.path_in(namespace), labelSelector=f"{label}={value}")
        for group in found:
            await delete_if_there(client, f"{form.path_in(namespace)}/{group['metadata']['name']}")


async def get_if_there(client: Client, path: str) -> Json | None:
    try:
        return await client.get(path)
    except KubeError as error:
        if error.status == 404:
            return None
        raise


async def delete_if_there(client: Client, path: str) -> None:
    try:
        await client.delete(path)
    except KubeError as error:
        if error.status != 404:
            raise


async def delete_if_labelled(client: Client, path: str, label: str, value: str) -> None:
    """Deletes an object only where it has the label; one that took its name meanwhile is left alone."""
    found = await get_if_there(client, path)
    if found is None or (found["metadata"].get("labels") or {}).get(label) != value:
        return
    try:
        await client.delete(path, {"preconditions": {"uid": found["metadata"]["uid"]}})
    except KubeError as error:
        if error.status not in (404, 409):
            raise


async def resize(client: Client, namespace: str, pod: str, container: str, milli: int) -> None:
    """Asks for another CPU request and limit of a running container, in place."""
    share = {"cpu": f"{milli}m"}
    body = {"spec": {"containers": [{"name": container, "resources": {"requests": share, "limits": share}}]}}
    await client.patch(f"/api/v1/namespaces/{namespace}/pods/{pod}/resize", body, STRATEGIC_PATCH)


def in_force(pod: Json, container: str) -> int | None:
    """Milli CPU that the kubelet says a container has; None while it has said nothing."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if status["name"] == container:
            limit = ((status.get("resources") or {}).get("limits") or {}).get("cpu")
            return None if limit is None else cpu_milli(str(limit))
    return None


def resize_refused(pod: Json) -> str:
    """Why a resize waits or is impossible, as the kubelet says; empty when it says nothing."""
    for entry in pod.get("status", {}).get("conditions") or ():
        if entry.get("type") == "PodResizePending" and entry.get("status") == "True":
            return f"{entry.get('reason', '')}: {entry.get('message', '')}".strip(": ")
    return ""
