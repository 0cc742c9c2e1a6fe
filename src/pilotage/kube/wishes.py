"""What a pod would like: preferred affinity, spread it can do without, taints it would rather avoid.

Each kind of wish is a score from 0 to 100 over the candidates, weighed as kube-scheduler weighs its plugins, added to
the policy's score brought to the same range. A pod without wishes is scored by its policy alone.
"""

from __future__ import annotations

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import pods_on_nodes, pods_selected
from pilotage.kube.podview import PodView
from pilotage.model.workload import BoolArray, FloatArray

NODE_WEIGHT, POD_WEIGHT, SPREAD_WEIGHT, TAINT_WEIGHT = 2.0, 2.0, 2.0, 3.0


def wishes(pod: PodView, cache: ClusterCache, allowed_N: BoolArray) -> FloatArray | None:
    """Points for each node, None for a pod that has no wishes here. Only the allowed nodes set the range."""
    rules = pod.rules
    parts: list[tuple[float, FloatArray]] = []
    if rules.node_wishes:
        parts.append((NODE_WEIGHT, cache.facts.liked(rules.node_wishes)))
    if rules.near_wishes or rules.far_wishes:
        parts.append((POD_WEIGHT, _pod_wishes(pod, cache)))
    if any(not constraint.required for constraint in rules.spread):
        parts.append((SPREAD_WEIGHT, -_crowding(pod, cache)))
    if cache.soft_taints:
        disliked_N = cache.facts.disliked(pod.shape.constraints.tolerations)
        parts += [(TAINT_WEIGHT, -disliked_N)] if disliked_N.any() else []
    if not parts or not allowed_N.any():
        return None
    total_N = np.zeros(len(allowed_N))
    for weight, score_N in parts:
        total_N += weight * _ranged(score_N, allowed_N)
    return total_N


def _ranged(score_N: FloatArray, allowed_N: BoolArray) -> FloatArray:
    """0 for the worst candidate, 100 for the best; equal ones get 0."""
    low, high = float(score_N[allowed_N].min()), float(score_N[allowed_N].max())
    return (score_N - low) * (100.0 / (high - low)) if high > low else np.zeros_like(score_N)


def _pod_wishes(pod: PodView, cache: ClusterCache) -> FloatArray:
    score_N = np.zeros(len(cache.state.nodes))
    for sign, terms in ((1.0, pod.rules.near_wishes), (-1.0, pod.rules.far_wishes)):
        for term in terms:
            ids_N, values = cache.neighbours.domains(term.key)
            found_N = pods_selected(term, cache)
            there_V = np.bincount(ids_N[ids_N >= 0], weights=found_N[ids_N >= 0], minlength=len(values) + 1)
            score_N += sign * term.weight * np.where(ids_N >= 0, there_V[ids_N], 0.0)
    return score_N


def _crowding(pod: PodView, cache: ClusterCache) -> FloatArray:
    """Pods that the constraints find in each node's domains; nodes without the label are the most crowded."""
    total_N = np.zeros(len(cache.state.nodes))
    for constraint in pod.rules.spread:
        if constraint.required:
            continue
        ids_N, values = cache.neighbours.domains(constraint.key)
        found_N = pods_on_nodes(pod, cache, constraint)
        there_V = np.bincount(ids_N[ids_N >= 0], weights=found_N[ids_N >= 0], minlength=len(values) + 1)
        most = float(there_V.max(initial=0.0)) + 1.0
        total_N += np.where(ids_N >= 0, there_V[ids_N], most) / constraint.max_skew
    return total_N
