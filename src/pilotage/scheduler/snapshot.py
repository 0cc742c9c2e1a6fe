"""The cluster read once, for questions that need no watch."""

from __future__ import annotations

from copy import deepcopy

from pilotage.kube.cache import UNFINISHED, ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json
from pilotage.kube.mixture import Mixture
from pilotage.kube.podview import read_pod
from pilotage.kube.storage_following import storage_followers
from pilotage.model.clock import Clock
from pilotage.policies.api import Policy, prepared
from pilotage.policies.explain import Explanation
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.explaining import explain


async def read_cluster(client: Client) -> ClusterCache:
    """Nodes, pods, namespaces and, as far as we may see them, volumes as they are now."""
    cache = ClusterCache()
    namespaces, _ = await client.list_all("/api/v1/namespaces")
    NamespaceFollower(cache).listed(namespaces)
    nodes, _ = await client.list_all("/api/v1/nodes")
    NodeFollower(cache).listed(nodes)
    cache.refresh()
    for path, follower in await storage_followers(client, cache, lambda text: None):
        follower.listed((await client.list_all(path))[0])
    pods, _ = await client.list_all("/api/v1/pods", **UNFINISHED)
    PodFollower(cache).listed(pods)
    return cache


async def explain_now(client: Client, found: Json, policy: Policy, clock: Clock) -> Explanation:
    """What would be decided about a pod now; one that is bound is taken off its node first, in our copy alone."""
    cache = await read_cluster(client)
    mix = Mixture(cache).take()
    as_new = deepcopy(found)
    as_new["spec"].pop("nodeName", None)
    pod = read_pod(as_new)
    cache.drop(pod.uid)
    cycle = Cycle(cache, {pod.scheduler: prepared(policy, mix)})
    return explain(cycle, pod, clock.wall().timestamp())
