"""Gangs as the native API has them: a PodGroup that says how many pods it needs, and pods that name it."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.workloads.podsets import GROUP_LABELS

VERSION = "/apis/scheduling.k8s.io/v1alpha2"


def groups_path(namespace: str) -> str:
    return f"{VERSION}/namespaces/{namespace}/podgroups"


async def serves_groups(client: Client) -> bool:
    try:
        resources = (await client.get(VERSION)).get("resources") or ()
    except KubeError as error:
        if error.status == 404:
            return False
        raise
    return any(resource.get("name") == "podgroups" for resource in resources)


def in_group(body: Json) -> Json:
    """A pod with the label of a group, as a member of the native group of that name."""
    group = body["metadata"].get("labels", {}).get(GROUP_LABELS[0])
    if body["kind"] != "Pod" or not group:
        return body
    return {**body, "spec": {**body["spec"], "schedulingGroup": {"podGroupName": group}}}


async def describe_gangs(client: Client, gangs: Mapping[str, int], namespace: str, labels: Mapping[str, str]) -> None:
    """Says of each how many pods it needs; one that is there stays as it is."""
    for name, count in gangs.items():
        spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
        body = {"metadata": {"name": name, "labels": dict(labels)}, "spec": spec}
        try:
            await client.create(groups_path(namespace), body)
        except KubeError as error:
            if error.status != 409:
                raise
