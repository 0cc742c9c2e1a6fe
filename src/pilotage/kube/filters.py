"""Filters beyond a node's own arrays, with kube-scheduler's semantics: host ports, volumes, topology spread, pod
affinity, features that nodes declare.

Each gives the nodes it takes out, with the reason that kube-scheduler would write. Resources, taints, selectors and GPU
models are not here: they are in the arrays (see pilotage.kernels.feasibility).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.features import LOAD_AGE, LOAD_LATENCY
from pilotage.kube.cache import ClusterCache
from pilotage.kube.neighbours import Kind
from pilotage.kube.pod_rules import Spread, Term, ports_conflict
from pilotage.kube.pod_volumes import NO_VOLUMES
from pilotage.kube.podview import PodView
from pilotage.kube.volume_filters import by_volumes
from pilotage.model.workload import BoolArray, IntArray
from pilotage.policies.encode import encode_shapes

POOL = "node(s) were not in this scheduler's pool"
PORTS = "node(s) didn't have free ports for the requested pod ports"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
LATENCY = "node(s) were slower than the pod's latency limit"
FEATURES = "node(s) didn't match Pod's required features"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Taken = tuple[str, BoolArray]  # a reason, and the nodes it takes out


def by_rules(pod: PodView, cache: ClusterCache) -> list[Taken]:
    """In the order in which kube-scheduler asks. Empty for the pods that have no such rules: nearly all."""
    taken: list[Taken] = []
    rules = pod.rules
    if cache.pool is not None:
        taken.append((POOL, ~cache.facts.selected(cache.pool)))
    if rules.ports:
        taken.append((PORTS, _without_ports(pod, cache)))
    if rules.volumes is not NO_VOLUMES:
        taken += by_volumes(pod, cache)
    required = [constraint for constraint in rules.spread if constraint.required]
    if required:
        taken += _uneven(pod, cache, required)
    if rules.near:
        taken.append((AFFINITY, _far_from_friends(pod, cache)))
    if rules.far:
        taken.append((ANTI_AFFINITY, _near_foes(pod, cache)))
    if rules.latency[1]:
        taken.append((LATENCY, too_slow(pod, cache)))
    if cache.neighbours.repelling:
        taken.append((EXISTING, _repelled(pod, cache)))
    if rules.features:
        taken.append((FEATURES, _without_features(pod, cache)))
    return [(reason, out_N) for reason, out_N in taken if out_N.any()]


def feasible(pod: PodView, cache: ClusterCache) -> BoolArray:
    """Nodes that the pod could go to now, by the arrays and by rules."""
    N = len(cache.state.nodes)
    fits_N = np.zeros(N, np.bool_)
    feasible_some(cache.state.arrays, encode_shapes(cache.state, [pod.shape]), 0, np.arange(N), fits_N)
    return fits_N & allowed(by_rules(pod, cache), N)


def allowed(taken: Sequence[Taken], nodes: int) -> BoolArray:
    """Nodes that no rule takes out."""
    allowed_N = np.ones(nodes, np.bool_)
    for _, out_N in taken:
        allowed_N &= ~out_N
    return allowed_N


def helped_by(pod: PodView, came: PodView, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a pod that fitted nowhere may fit since another came to a node: a friend, or one that evens a spread."""
    near = pod.rules.near
    if near and all(term.selects(came.labels, came.namespace, namespaces) for term in near):
        return True
    spread = [one.selector for one in pod.rules.spread if one.required and one.selector is not None]
    return came.namespace == pod.namespace and any(selector.matches(came.labels) for selector in spread)


def _nobody(cache: ClusterCache) -> BoolArray:
    return np.zeros(len(cache.state.nodes), np.bool_)


def too_slow(pod: PodView, cache: ClusterCache) -> BoolArray:
    """Nodes whose latency is measured and beyond the pod's hard limit. What is not measured takes no node out."""
    measured_N = cache.node_NF[:, LOAD_AGE] >= 0
    out_N: BoolArray = measured_N & (cache.node_NF[:, LOAD_LATENCY] > pod.rules.latency[1])
    return out_N


def _without_ports(pod: PodView, cache: ClusterCache) -> BoolArray:
    out_N = _nobody(cache)
    for node, users in cache.neighbours.ports.items():
        n = cache.neighbours.number(node)
        used = [port for ports in users.values() for port in ports]
        if n >= 0 and any(ports_conflict(one, other) for one in pod.rules.ports for other in used):
            out_N[n] = True
    return out_N


def _without_features(pod: PodView, cache: ClusterCache) -> BoolArray:
    declared = (cache.declared.get(node.name, frozenset()) for node in cache.state.nodes)
    return np.array([not found.issuperset(pod.rules.features) for found in declared], np.bool_)


def _uneven(pod: PodView, cache: ClusterCache, required: list[Spread]) -> list[Taken]:
    domains = [cache.neighbours.domains(constraint.key) for constraint in required]
    unlabelled_N, uneven_N = _nobody(cache), _nobody(cache)
    all_keys_N = np.all([ids_N >= 0 for ids_N, _ in domains], axis=0)
    for constraint, (ids_N, values) in zip(required, domains, strict=True):
        counted_N = all_keys_N & _included(pod, cache, constraint)
        matching_N = pods_on_nodes(pod, cache, constraint)
        count_V = np.bincount(ids_N[counted_N], weights=matching_N[counted_N], minlength=len(values)).astype(np.int64)
        seen = np.unique(ids_N[counted_N])
        lowest = int(count_V[seen].min()) if len(seen) >= constraint.min_domains and len(seen) else 0
        itself = constraint.selector is not None and constraint.selector.matches(pod.labels)
        missing_N = ids_N < 0
        skew_N = np.where(missing_N, 0, count_V[ids_N] if len(values) else 0) + int(itself) - lowest
        fresh_N = ~unlabelled_N & ~uneven_N  # the first constraint that fails gives the reason
        unlabelled_N |= fresh_N & missing_N
        uneven_N |= fresh_N & ~missing_N & (skew_N > constraint.max_skew)
    return [(SPREAD_LABEL, unlabelled_N), (SPREAD, uneven_N)]


def _included(pod: PodView, cache: ClusterCache, constraint: Spread) -> BoolArray:
    """Nodes whose pods count, by the constraint's policies on affinity and taints."""
    included_N = np.ones(len(cache.state.nodes), np.bool_)
    if constraint.honour_affinity:
        included_N &= cache.facts.selected(pod.shape.constraints)
    if constraint.honour_taints:
        included_N &= cache.facts.tolerated(pod.shape.constraints.tolerations)
    return included_N


def pods_on_nodes(pod: PodView, cache: ClusterCache, constraint: Spread) -> IntArray:
    """How many pods of its namespace the selector finds on each node; those being deleted do not count."""
    count_N = np.zeros(len(cache.state.nodes), np.int64)
    selector = constraint.selector
    if selector is None or not selector.requirements:  # kube-scheduler counts nothing for an empty selector
        return count_N
    for kind in cache.neighbours.kinds.values():
        if kind.namespace == pod.namespace and not kind.deleting and selector.matches(kind.labels):
            _add_counts(kind, cache, count_N)
    return count_N


def _add_counts(kind: Kind, cache: ClusterCache, count_N: IntArray) -> None:
    for node, count in kind.nodes.items():
        n = cache.neighbours.number(node)
        if n >= 0:
            count_N[n] += count


def _far_from_friends(pod: PodView, cache: ClusterCache) -> BoolArray:
    """Nodes where a term finds nobody. Only pods that all terms find are friends."""
    near, names = pod.rules.near, cache.namespaces
    friends_N = np.zeros(len(cache.state.nodes), np.int64)
    for kind in cache.neighbours.kinds.values():
        if all(term.selects(kind.labels, kind.namespace, names) for term in near):
            _add_counts(kind, cache, friends_N)
    out_N, unlabelled_N, found = _nobody(cache), _nobody(cache), False
    for term in near:
        ids_N, values = cache.neighbours.domains(term.key)
        unlabelled_N |= ids_N < 0
        here_V = np.zeros(len(values) + 1, np.bool_)  # the last one is for nodes without the label
        here_V[ids_N[(friends_N > 0) & (ids_N >= 0)]] = True
        found |= bool(here_V.any())
        out_N |= ~here_V[ids_N]
    if not found and all(term.selects(pod.labels, pod.namespace, names) for term in near):
        return unlabelled_N  # the first of pods that want to be together
    return out_N | unlabelled_N


def _near_foes(pod: PodView, cache: ClusterCache) -> BoolArray:
    out_N = _nobody(cache)
    for term in pod.rules.far:
        out_N |= _same_domain(term, pods_selected(term, cache) > 0, cache)
    return out_N


def pods_selected(term: Term, cache: ClusterCache) -> IntArray:
    """How many pods on each node the term is about."""
    count_N = np.zeros(len(cache.state.nodes), np.int64)
    for kind in cache.neighbours.kinds.values():
        if term.selects(kind.labels, kind.namespace, cache.namespaces):
            _add_counts(kind, cache, count_N)
    return count_N


def _repelled(pod: PodView, cache: ClusterCache) -> BoolArray:
    """Nodes in the domain of a pod that does not want this one near."""
    out_N = _nobody(cache)
    for term, nodes in cache.neighbours.repelling.items():
        if term.selects(pod.labels, pod.namespace, cache.namespaces):
            at_N = _nobody(cache)
            at_N[[n for n in map(cache.neighbours.number, nodes) if n >= 0]] = True
            out_N |= _same_domain(term, at_N, cache)
    return out_N


def _same_domain(term: Term, at_N: BoolArray, cache: ClusterCache) -> BoolArray:
    """Nodes that share a domain of the term's key with one of `at_N`."""
    ids_N, values = cache.neighbours.domains(term.key)
    here_V = np.zeros(len(values) + 1, np.bool_)
    here_V[ids_N[at_N & (ids_N >= 0)]] = True
    here_V[-1] = False  # without the label there is no domain
    return here_V[ids_N]
