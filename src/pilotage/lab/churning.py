"""Pods that go, and others like them that come: what a cluster is like between two looks."""

from __future__ import annotations

import random

from pilotage.kube.client import Client, Json
from pilotage.kube.many import for_each
from pilotage.kube.podview import GPU_INDEX
from pilotage.lab.load import COLLECTIONS, LoadSettings, chosen


async def churn(client: Client, settings: LoadSettings, share: float, chance: random.Random) -> int:
    """Takes a share of the load's pods away and makes others like them; those of Deployments come again by themselves.

    The number of pods that went.
    """
    path = COLLECTIONS["Pod"].format(settings.namespace)
    pods, _ = await client.list_all(path, labelSelector=chosen(settings))
    there = sorted((pod for pod in pods if "deletionTimestamp" not in pod["metadata"]), key=_name)
    leaving = chance.sample(there, max(1, round(share * len(there)))) if there else []

    async def replace_one(pod: Json) -> None:
        await client.delete(f"{path}/{_name(pod)}")
        if not pod["metadata"].get("ownerReferences"):
            await client.create(path, _like(pod))

    await for_each(leaving, replace_one)
    return len(leaving)


def _name(pod: Json) -> str:
    name: str = pod["metadata"]["name"]
    return name


def _like(pod: Json) -> Json:
    """The same pod as it was asked for, under another name and without a node."""
    metadata, spec = pod["metadata"], dict(pod["spec"])
    for key in ("nodeName", "priority", "preemptionPolicy"):
        spec.pop(key, None)
    base, _, number = _name(pod).rpartition("-again-")
    name = f"{base}-again-{int(number) + 1}" if base and number.isdigit() else f"{_name(pod)}-again-1"
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != GPU_INDEX}
    fresh = {"name": name, "labels": metadata["labels"], "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": fresh, "spec": spec}
