"""What is followed in a cluster, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pilotage.kube.budgets import PATH as BUDGETS
from pilotage.kube.budgets import Budgets
from pilotage.kube.cache import UNFINISHED, ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client
from pilotage.kube.podgroups import GroupFollower, PodGroups, served_forms
from pilotage.kube.refused_pods import FAILED, RefusedPods
from pilotage.kube.storage_following import storage_followers
from pilotage.kube.watch import Informer, may_list


@dataclass(frozen=True, slots=True)
class Follow:
    """One informer per kind of object that the API server has."""

    client: Client
    cache: ClusterCache
    groups: PodGroups
    budgets: Budgets | None = None
    on_fault: Callable[[str], None] = lambda text: None

    async def informers(self) -> list[Informer]:
        client, cache, told = self.client, self.cache, self.on_fault
        found = [
            Informer(client, "/api/v1/namespaces", NamespaceFollower(cache), on_fault=told),
            Informer(client, "/api/v1/nodes", NodeFollower(cache), on_fault=told),
            Informer(client, "/api/v1/pods", PodFollower(cache), UNFINISHED, on_fault=told),
            Informer(client, "/api/v1/pods", RefusedPods(cache.listener.rejected), FAILED, on_fault=told),
        ]
        followers = await storage_followers(client, cache, told)
        found += [Informer(client, path, follower, on_fault=told) for path, follower in followers]
        if self.budgets is not None:
            found.append(Informer(client, BUDGETS, self.budgets, on_fault=told))
        for form in await served_forms(client):
            if await may_list(client, form.path):
                follower = GroupFollower(self.groups, form.api_group, form.count)
                found.append(Informer(client, form.path, follower, on_fault=told))
            else:
                told(f"PodGroups of {form.api_group} are left out: they cannot be listed")
        return found
