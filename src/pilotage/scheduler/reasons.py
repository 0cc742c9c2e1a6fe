"""Why a pod fits nowhere, counted over the nodes in the words of kube-scheduler: people and autoscalers know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from pilotage.kernels.feasibility import FITS, NO_GPU_LEFT, NO_RESOURCE, NODE_DOWN, NOT_ELIGIBLE, obstacles
from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import PORTS, Taken
from pilotage.model.workload import BoolArray, PodShape
from pilotage.policies.deciding import View
from pilotage.workloads.nodespec import CORDONED

UNSCHEDULABLE = "node(s) were unschedulable"
TAINT = "node(s) had untolerated taint(s)"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
MODEL = "node(s) didn't have a GPU of the requested model"
GPU_LESS = "node(s) had no GPU"
NO_GPU = "node(s) didn't have enough GPU left on their devices"
DOWN = "node(s) were down"
TOO_MANY = "Too many pods"


def count_reasons(
    shape: PodShape, view: View, cache: ClusterCache, taken: Sequence[Taken]
) -> tuple[tuple[str, int], ...]:
    """A node counts once, for the first filter that takes it out; for resources, once for each that is short."""
    state = cache.state
    obstacle_N = np.zeros(len(state.nodes), np.int64)
    obstacles(view.cluster, view.shapes, view.s, obstacle_N)
    counted: Counter[str] = Counter()
    # Nodes that something takes out; the rest is not looked at again.
    out = np.flatnonzero((obstacle_N != FITS) | np.any([out_N for _, out_N in taken], axis=0))
    if not len(out):
        return ()
    code = obstacle_N[out]
    open_ = np.ones(len(out), np.bool_)

    def take(reason: str, out_here: BoolArray) -> None:
        counted[reason] += int(np.count_nonzero(open_ & out_here))
        open_[out_here] = False

    take(DOWN, code == NODE_DOWN)
    barred = code == NOT_ELIGIBLE
    if barred.any():
        untolerated = ~cache.facts.tolerated(shape.constraints.tolerations)[out]
        take(UNSCHEDULABLE, barred & untolerated & cache.facts.carrying(CORDONED)[out])
        take(TAINT, barred & untolerated)
        take(SELECTOR, barred & ~cache.facts.selected(shape.constraints)[out])
        take(MODEL if shape.gpu_models else GPU_LESS, barred)
    for reason, out_N in taken:
        if reason == PORTS:
            take(reason, out_N[out])
    if (code >= NO_RESOURCE).any():
        request_R = view.shapes.request_SR[view.s]
        asked = np.flatnonzero(request_R > 0)
        short = request_R[asked] > view.cluster.free_NR[np.ix_(out, asked)]
        for r, short_here in zip(asked.tolist(), short.T, strict=True):
            reason = TOO_MANY if state.resources[r] == "pods" else f"Insufficient {state.resources[r]}"
            counted[reason] += int(np.count_nonzero(open_ & short_here))
        open_[short.any(axis=1)] = False
    take(NO_GPU, code == NO_GPU_LEFT)
    for reason, out_N in taken:
        take(reason, out_N[out] & (code == FITS))
    return tuple(sorted((reason, count) for reason, count in counted.items() if count))
