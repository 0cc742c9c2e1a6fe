"""Gangs as the native API has them: a PodGroup that says how many pods it needs, and pods that name it."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.kube.podgroups import NATIVE, GroupForm, served_forms
from pilotage.workloads.podsets import GROUP_LABELS


async def native_form(client: Client) -> GroupForm | None:
    """None where the API is not served."""
    return next((form for form in await served_forms(client) if form.api_group == NATIVE), None)


def in_group(body: Json) -> Json:
    """A pod with the label of a group, as a member of the native group of that name."""
    group = body["metadata"].get("labels", {}).get(GROUP_LABELS[0])
    if body["kind"] != "Pod" or not group:
        return body
    return {**body, "spec": {**body["spec"], "schedulingGroup": {"podGroupName": group}}}


async def describe_gangs(client: Client, gangs: Mapping[str, int], namespace: str, labels: Mapping[str, str]) -> bool:
    """Says of each how many pods it needs; one that is there stays as it is. False where the API is not served."""
    form = await native_form(client)
    if form is None:
        return False
    for name, count in gangs.items():
        try:
            await client.create(form.path_in(namespace), form.group(name, count, labels))
        except KubeError as error:
            if error.status != 409:
                raise
    return True
