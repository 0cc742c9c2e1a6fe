"""From scores to one node: the highest total, the lowest index among equals.

Nodes are kept in the order that breaks ties, so "first" is "lowest rank". Scores of a (shape, node) pair are kept
until the node changes. Each pair is brought up to date only when its shape is asked for next, and a tree of maxima
answers without looking at every node: a decision costs the changed nodes, not all of them, and of those hardly anything
where the shape did not fit before and nothing left it since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pilotage.kernels.compiling import inlined_inner, kernel
from pilotage.kernels.feasibility import ShapeArrays, devices_fit
from pilotage.kernels.features import GPU_IDLE, GPU_LARGEST, RANK
from pilotage.kernels.fragmentation import Typical
from pilotage.kernels.maxima import LOWEST, find_maxima, first_highest, follow_change, level_starts, whole_groups
from pilotage.kernels.prices import priced_score, stand, standing_columns
from pilotage.kernels.scoring import FLEETING, PRICED, fleeting_score, score_node
from pilotage.model.cluster import ClusterArrays
from pilotage.model.workload import BoolArray, FloatArray, IntArray

INFEASIBLE = LOWEST
CACHE_BYTES = 256 * 1024 * 1024
MIN_ROWS = 4

# How rows become a decision.
BY_MAXIMA, BY_SCAN = range(2)

ONE_BY_ONE = (
    24  # changed scores are followed up the tree where they are fewer than one in so many; else all is found anew
)

# Columns of ScoreCache.newest_N2.
CHANGED, RELIEVED = range(2)


class Rules(NamedTuple):
    """A compiled policy: a weighted sum (axis K) of rules, as kube-scheduler weighs its plugins."""

    rule_K: IntArray
    weight_K: FloatArray
    minmax_K: BoolArray  # normalised to whole numbers 0..100 over the candidates before weighing
    mode: int
    typical: Typical
    prices: FloatArray  # see kernels.prices; zeros for rules that take none


class ScoreCache(NamedTuple):
    """Rows of scores for the most recently asked shapes (axis C), least recently used first to go."""

    row_S: IntArray  # row of a shape, -1 = none
    shape_C: IntArray
    asked_C: IntArray  # when the row was last asked for
    seen_C: IntArray  # number of changes the row has taken in
    score_CKN: FloatArray  # BY_MAXIMA: one plane with the weighted sum; BY_SCAN: one plane per rule
    maxima_CT: FloatArray  # of the rows (kernels.maxima)
    start_L: IntArray  # of their levels
    changed_L: IntArray  # ring of changed nodes
    newest_N2: IntArray  # numbers of each node's newest change, and of the newest one that relieved it
    counters_2: IntArray  # changes so far, questions so far
    total_N: FloatArray  # scratch
    stale_N: IntArray  # scratch: nodes whose scores are old, and one more place
    standing_NX: FloatArray  # of nodes as they are (prices.stand)
    standing_of_N: IntArray  # number of the change that this was found after
    kind_N: IntArray  # nodes of one kind are alike until something changes on them


def choosing_mode(scopes_node: bool, minmax_K: BoolArray) -> int:
    """Maxima hold only where totals do not depend on other nodes; one normalised rule alone keeps its order."""
    return BY_MAXIMA if scopes_node and (len(minmax_K) == 1 or not minmax_K.any()) else BY_SCAN


def empty_cache(
    kind_N: IntArray, devices: int, shapes: int, rules: Rules | None, cache_bytes: int = CACHE_BYTES
) -> ScoreCache:
    """Room for the scores of `rules`; without rules only the list of changes is of use. `kind_N`: by `alike`.
    `devices`: of a node, at most."""
    nodes = len(kind_N)
    planes = 1 if rules is None or rules.mode == BY_MAXIMA else len(rules.rule_K)
    rows = 1 if rules is None else min(shapes, max(MIN_ROWS, cache_bytes // (8 * planes * max(nodes, 1))))
    start_L = level_starts(nodes)
    return ScoreCache(
        row_S=np.full(shapes, -1, np.int64),
        shape_C=np.full(rows, -1, np.int64),
        asked_C=np.zeros(rows, np.int64),
        seen_C=np.zeros(rows, np.int64),
        score_CKN=np.full((rows, planes, whole_groups(nodes)), INFEASIBLE),
        maxima_CT=np.full((rows, start_L[-1]), INFEASIBLE),
        start_L=start_L,
        changed_L=np.zeros(max(nodes, 1), np.int64),
        newest_N2=np.zeros((nodes, 2), np.int64),
        counters_2=np.zeros(2, np.int64),
        total_N=np.zeros(nodes),
        stale_N=np.zeros(nodes + 1, np.int64),
        standing_NX=np.zeros((nodes, standing_columns(devices))),
        standing_of_N=np.full(nodes, -1, np.int64),
        kind_N=kind_N,
    )


def alike(cluster: ClusterArrays, node_NF: FloatArray) -> IntArray:
    """Kinds of nodes: equal numbers for those that differ in nothing that a score or a test of fit could see."""
    seen_NF = node_NF.copy()
    seen_NF[:, RANK] = 0
    parts = (seen_NF, cluster.free_NR, cluster.device_left_ND, cluster.alive_N[:, None])
    rows = np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts])
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.tobytes(), len(known)) for row in rows], np.int64)


@inlined_inner
def note_change(cache: ScoreCache, n: int, relieves: bool) -> None:
    """Node n has changed: whatever was scored for it is old. `relieves`: what did not fit may fit now."""
    cache.changed_L[cache.counters_2[0] % cache.changed_L.shape[0]] = n
    cache.counters_2[0] += 1
    cache.newest_N2[n, CHANGED] = cache.counters_2[0]
    if relieves:
        cache.newest_N2[n, RELIEVED] = cache.counters_2[0]


@inlined_inner
def choose_node(
    cluster: ClusterArrays, shapes: ShapeArrays, s: int, node_NF: FloatArray, rules: Rules, cache: ScoreCache
) -> int:
    """The node for shape s, -1 when it fits nowhere."""
    cache.counters_2[1] += 1
    c = row_of(cache, s)
    refresh(cluster, shapes, s, node_NF, rules, cache, c)
    if rules.mode == BY_MAXIMA:
        return first_highest(cache.score_CKN[c, 0], cache.maxima_CT[c], cache.start_L)
    for k in range(rules.rule_K.shape[0]):
        rule, score_N = rules.rule_K[k], cache.score_CKN[c, k]
        if rule in FLEETING:  # what the row holds is only who is a candidate
            for n in range(score_N.shape[0]):
                if score_N[n] != INFEASIBLE:
                    score_N[n] = fleeting_score(rule, shapes.pod_SF, s, node_NF, n)
    weighted_total(cache.score_CKN[c], rules.weight_K, rules.minmax_K, cache.total_N)
    return first_maximum(cache.total_N)


@inlined_inner
def row_of(cache: ScoreCache, s: int) -> int:
    """The row of shape s; takes the one asked for longest ago when there is none."""
    c = cache.row_S[s]
    if c < 0:
        c = 0
        for other in range(1, cache.asked_C.shape[0]):
            if cache.asked_C[other] < cache.asked_C[c]:
                c = other
        if cache.shape_C[c] >= 0:
            cache.row_S[cache.shape_C[c]] = -1
        cache.row_S[s], cache.shape_C[c], cache.seen_C[c] = c, s, -1
    cache.asked_C[c] = cache.counters_2[1]
    return c


@inlined_inner
def refresh(
    cluster: ClusterArrays, shapes: ShapeArrays, s: int, node_NF: FloatArray, rules: Rules, cache: ScoreCache, c: int
) -> None:
    """Brings row c up to date: the nodes changed since it was last asked for, or all of them. At a first look most
    nodes are often as they were at the beginning, and alike: one of each kind is scored then."""
    nodes, changes, seen = cache.newest_N2.shape[0], cache.counters_2[0], cache.seen_C[c]
    everything = seen < 0 or changes - seen > nodes
    score_KN, maxima_T = cache.score_CKN[c], cache.maxima_CT[c]
    first_look = seen < 0 and rules.mode == BY_MAXIMA
    stale = list_stale(cache, c, everything)
    cache.seen_C[c] = changes
    afresh = everything or stale * ONE_BY_ONE > nodes
    if first_look:
        stale = copy_of_kind(cluster, shapes, s, node_NF, rules, cache, c, stale)
    candidates = sort_out(cluster, shapes, s, node_NF, cache, stale)
    for i in range(stale):
        n, total = cache.stale_N[i], INFEASIBLE
        if rules.mode == BY_MAXIMA:
            if i < candidates:
                total = total_score(cluster, shapes, s, node_NF, rules, cache, n)
            if score_KN[0, n] != total:
                score_KN[0, n] = total
                if not afresh:
                    follow_change(score_KN[0], maxima_T, cache.start_L, n)
            continue
        for k in range(rules.rule_K.shape[0]):
            fits = i < candidates
            score_KN[k, n] = rule_score(cluster, shapes, s, node_NF, rules, cache, k, n) if fits else INFEASIBLE
    if afresh and rules.mode == BY_MAXIMA:
        find_maxima(score_KN[0], maxima_T, cache.start_L)


@inlined_inner
def copy_of_kind(
    cluster: ClusterArrays,
    shapes: ShapeArrays,
    s: int,
    node_NF: FloatArray,
    rules: Rules,
    cache: ScoreCache,
    c: int,
    stale: int,
) -> int:
    """Scores the nodes on which nothing has changed yet, one of each kind; how many of the list are left to score."""
    left, score_N = 0, cache.score_CKN[c, 0]
    cache.total_N[:] = np.nan  # of kinds
    for i in range(stale):
        n = cache.stale_N[i]
        if cache.newest_N2[n, CHANGED] != 0 or not shapes.eligible_KN[shapes.eligible_S[s], n]:
            cache.stale_N[left] = n
            left += 1
            continue
        kind = cache.kind_N[n]
        if np.isnan(cache.total_N[kind]):
            fits = is_candidate(cluster, shapes, s, node_NF, n)
            total = total_score(cluster, shapes, s, node_NF, rules, cache, n) if fits else INFEASIBLE
            cache.total_N[kind] = total
        score_N[n] = cache.total_N[kind]
    return left


@inlined_inner
def sort_out(
    cluster: ClusterArrays, shapes: ShapeArrays, s: int, node_NF: FloatArray, cache: ScoreCache, stale: int
) -> int:
    """Brings the candidates among the listed nodes to the front; how many they are."""
    stale_N, candidates = cache.stale_N, 0
    for i in range(stale):  # without branches, which nobody could foretell
        n = stale_N[i]
        stale_N[i], stale_N[candidates] = stale_N[candidates], n
        candidates += is_candidate(cluster, shapes, s, node_NF, n)
    return candidates


@inlined_inner
def is_candidate(cluster: ClusterArrays, shapes: ShapeArrays, s: int, node_NF: FloatArray, n: int) -> bool:
    """Whether feasibility.obstacle finds none. Devices are what most often is missing, and what the columns tell."""
    milli, wanted, devices = shapes.gpu_milli_S[s], shapes.gpu_count_S[s], shapes.devices_S[s]
    if wanted == 1 and node_NF[n, GPU_LARGEST] < milli:
        return False
    if wanted > 1 and milli >= 1000 and node_NF[n, GPU_IDLE] < wanted:
        return False
    fits = cluster.alive_N[n] & shapes.eligible_KN[shapes.eligible_S[s], n]
    for r in range(shapes.request_SR.shape[1]):
        request = shapes.request_SR[s, r]
        fits &= (request == 0) | (request <= cluster.free_NR[n, r])
    if devices == 0 and (wanted <= 1 or milli >= 1000):
        return fits
    return fits and devices_fit(cluster, n, milli, wanted, devices)


@inlined_inner
def list_stale(cache: ScoreCache, c: int, everything: bool) -> int:
    """Lists the nodes whose scores in row c are old, each once; how many they are. A node that the shape did not fit is
    left out unless something left it since: there is only less now. Without branches, which nobody could foretell."""
    nodes, seen = cache.newest_N2.shape[0], cache.seen_C[c]
    score_N, newest_N2, stale_N = cache.score_CKN[c, 0], cache.newest_N2, cache.stale_N
    stale = 0
    if everything:
        for n in range(nodes):
            stale_N[stale] = n
            may_fit = (score_N[n] != INFEASIBLE) | (newest_N2[n, RELIEVED] > seen)
            stale += (newest_N2[n, CHANGED] > seen) & may_fit
        return stale
    place = seen % nodes
    for number in range(seen + 1, cache.counters_2[0] + 1):
        n = cache.changed_L[place]
        place = place + 1 if place + 1 < nodes else 0
        stale_N[stale] = n
        may_fit = (score_N[n] != INFEASIBLE) | (newest_N2[n, RELIEVED] > seen)
        stale += (newest_N2[n, CHANGED] == number) & may_fit  # else it changed again later
    return stale


@inlined_inner
def total_score(
    cluster: ClusterArrays, shapes: ShapeArrays, s: int, node_NF: FloatArray, rules: Rules, cache: ScoreCache, n: int
) -> float:
    """The weighted sum of all rules."""
    total = 0.0
    for k in range(rules.rule_K.shape[0]):
        total += rules.weight_K[k] * rule_score(cluster, shapes, s, node_NF, rules, cache, k, n)
    return total


@inlined_inner
def rule_score(
    cluster: ClusterArrays,
    shapes: ShapeArrays,
    s: int,
    node_NF: FloatArray,
    rules: Rules,
    cache: ScoreCache,
    k: int,
    n: int,
) -> float:
    """By rule k. For PRICED, how the node stands was found once for all shapes."""
    if rules.rule_K[k] != PRICED:
        return score_node(rules.rule_K[k], rules.typical, shapes.pod_SF, s, node_NF, n, cluster.device_left_ND)
    stands_X, left_D = cache.standing_NX[n], cluster.device_left_ND[n]
    if cache.standing_of_N[n] != cache.newest_N2[n, CHANGED]:
        cache.standing_of_N[n] = cache.newest_N2[n, CHANGED]
        stand(rules.prices, node_NF, n, left_D, stands_X)
    return priced_score(rules.prices, shapes.pod_SF, s, left_D, stands_X)


@inlined_inner
def first_maximum(total_N: FloatArray) -> int:
    best = 0
    for n in range(1, total_N.shape[0]):
        if total_N[n] > total_N[best]:
            best = n
    return best if total_N[best] != INFEASIBLE else -1


@kernel
def weighted_total(score_KN: FloatArray, weight_K: FloatArray, minmax_K: BoolArray, total_N: FloatArray) -> None:
    """Normalises as kube-scheduler does (whole numbers 0..100 over the candidates; all equal gives 0), then weighs."""
    for n in range(total_N.shape[0]):
        total_N[n] = 0.0 if score_KN[0, n] != INFEASIBLE else INFEASIBLE
    for k in range(score_KN.shape[0]):
        low, high = np.inf, -np.inf
        if minmax_K[k]:
            for n in range(total_N.shape[0]):
                if total_N[n] != INFEASIBLE:
                    low, high = min(low, score_KN[k, n]), max(high, score_KN[k, n])
        for n in range(total_N.shape[0]):
            if total_N[n] == INFEASIBLE:
                continue
            value = score_KN[k, n]
            if minmax_K[k]:
                value = np.floor((value - low) * 100.0 / (high - low)) if high > low else 0.0
            total_N[n] += weight_K[k] * value


@inlined_inner
def comes_before(total_N: FloatArray, rank_N: IntArray, n: int, other: int) -> bool:
    return bool(total_N[n] > total_N[other] or (total_N[n] == total_N[other] and rank_N[n] < rank_N[other]))


@kernel
def best_few(total_N: FloatArray, rank_N: IntArray, best_K: IntArray) -> int:
    """The candidates with the highest totals, the lowest rank first among equals; how many there are, at most K."""
    found = 0
    for n in range(total_N.shape[0]):
        if total_N[n] == INFEASIBLE:
            continue
        place = found
        while place > 0 and comes_before(total_N, rank_N, n, best_K[place - 1]):
            if place < best_K.shape[0]:
                best_K[place] = best_K[place - 1]
            place -= 1
        if place < best_K.shape[0]:
            best_K[place] = n
            found = min(found + 1, best_K.shape[0])
    return found
