"""Our own API: scores of candidates, and a suggestion. Synchronous: a request's body in, an answer out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from pilotage.kernels.feasibility import FITS, obstacles
from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import by_rules
from pilotage.kube.podview import PodView, gpu_index
from pilotage.kube.undecided import undecided
from pilotage.model.workload import IntArray
from pilotage.policies.api import device_rule_of
from pilotage.policies.choose import devices_for
from pilotage.policies.explain import count_reasons, rank_candidates, verdict
from pilotage.serving.callers import Sessions
from pilotage.serving.pods import expect_readable, offered_pod, whole_pod
from pilotage.serving.problems import invalid, not_ready, unknown_nodes
from pilotage.serving.scale import scaled
from pilotage.serving.scoring import Scoring
from pilotage.serving.showing import Scored
from pilotage.serving.wire import (
    Candidate,
    NumberedCandidates,
    ScoreAnswer,
    ScoreRequest,
    SuggestAnswer,
    Suggested,
    SuggestRequest,
)

TOP = 100
BEST_SHOWN = 5


@dataclass
class Own:
    """The service's own view of a cluster."""

    scoring: Scoring
    obstacle: Callable[[], str]  # why it cannot be relied on; "" when it can


@dataclass
class Api:
    """Answers by sessions of callers, and by the service's own view where there is one."""

    sessions: Sessions
    own: Own | None = None
    on_scored: Callable[[str, Scored], None] | None = None  # uid of the pod, and what is answered

    def score(self, request: ScoreRequest) -> ScoreAnswer:
        pod = offered_pod(request.pod)
        expect_readable(pod)
        scoring, nodes = self._place(request.candidates, request.session, pod)
        said = scoring.verdict(pod, request.policy)
        total_C = said.of(nodes)
        score_C = scaled(total_C, TOP)
        names: list[str] = []
        if self.on_scored is not None or not isinstance(request.candidates, NumberedCandidates):
            names = [scoring.cache.state.nodes[n].name for n in nodes]
        if self.on_scored is not None:
            self.on_scored(pod.uid, Scored(said.policy.name, names, total_C))
        if isinstance(request.candidates, NumberedCandidates):
            asked = crc32(request.candidates.numbers)  # scores in a row do not say whose they are
            return ScoreAnswer("v1", pod.uid, said.policy.name, score_C.tobytes(), asked)
        return ScoreAnswer("v1", pod.uid, said.policy.name, dict(zip(names, score_C.tolist(), strict=True)))

    def suggest(self, request: SuggestRequest) -> SuggestAnswer:
        """The best of the candidates after all filters, and why."""
        pod = whole_pod(request.pod)
        expect_readable(pod)
        if request.candidates is None:
            scoring = self._own()
            scoring.cache.refresh()
            nodes = np.arange(len(scoring.cache.state.nodes))
        else:
            scoring, nodes = self._place(request.candidates, request.session, pod)
        why = undecided(pod, scoring.cache)  # volumes are not followed here: what is claimed is kube-scheduler's
        if why:
            raise invalid(f"pod: {why}")
        return _suggestion(scoring, nodes, pod, request.policy)

    def _own(self) -> Scoring:
        if self.own is None:
            raise invalid("candidates: this service follows no cluster; expected candidates with their state")
        problem = self.own.obstacle()
        if problem:
            raise not_ready(problem)
        return self.own.scoring

    def _place(
        self, candidates: list[Candidate] | NumberedCandidates, session: str | None, pod: PodView
    ) -> tuple[Scoring, IntArray]:
        """The cluster in question, and which of its nodes are candidates."""
        if isinstance(candidates, NumberedCandidates):
            if session is None:
                raise invalid("session: is missing; expected one, as candidates have numbers")
            known = self.sessions.find(session)
            nodes = known.numbered(candidates)
        else:
            _expect_forms(candidates, session)
            if candidates[0].generation is None and candidates[0].state is None:
                scoring = self._own()
                scoring.cache.refresh()
                return scoring, _places(scoring.cache, [one.name for one in candidates])
            known = self.sessions.find(session)
            nodes = known.named(candidates)
        known.remember(pod)
        return known.scoring, nodes


def _expect_forms(candidates: list[Candidate], session: str | None) -> None:
    """Each name once; by name alone all of them or none."""
    if len({one.name for one in candidates}) < len(candidates):
        raise invalid("candidates: a name is given twice; expected each name once")
    bare = sum(one.generation is None and one.state is None for one in candidates)
    if 0 < bare < len(candidates):
        raise invalid("candidates: some have only a name; expected generation or state for all, or for none")
    if session is None and any(one.generation is not None for one in candidates):
        raise invalid("session: is missing; expected one, as candidates have generations")


def _places(cache: ClusterCache, names: list[str]) -> IntArray:
    found = list(map(cache.state.index.get, names))
    if None in found:
        raise unknown_nodes([name for name, n in zip(names, found, strict=True) if n is None], len(names))
    return np.array(found, np.int64)


def _suggestion(scoring: Scoring, nodes: IntArray, pod: PodView, name: str | None) -> SuggestAnswer:
    cache = scoring.cache
    said = scoring.verdict(pod, name)
    policy, view, row = said.policy, said.row.view, said.row.row
    obstacle_N = np.zeros(len(cache.state.nodes), np.int64)
    obstacles(view.cluster, view.shapes, view.s, obstacle_N)
    filtered = count_reasons(obstacle_N[nodes], cache.state.resources)
    nowhere = [key for key, _ in pod.shape.extended if key not in cache.state.resources]
    if nowhere:  # nodes that do not know a resource count it under another name
        filtered = {f"not enough {nowhere[0]}": len(nodes)}
    fits_C = obstacle_N[nodes] == FITS
    for reason, out_N in by_rules(pod, cache):
        taken_C = fits_C & out_N[nodes]
        if taken_C.any():
            filtered[reason] = int(taken_C.sum())
        fits_C &= ~out_N[nodes]
    batch = view.batch(nodes)
    ranked = rank_candidates(
        policy,
        replace(batch, feasible_BN=fits_C[None]),
        tuple(cache.state.nodes[n].name for n in nodes),
        cache.rank_N[nodes],
    )
    best, devices = (ranked[0].node, 0) if ranked else (None, 0)
    if best is not None and pod.shape.gpu_count:
        n = cache.state.index[best]
        left_D, count = view.cluster.device_left_ND[n], int(view.cluster.device_count_N[n])
        device, rule = int(row.device_N[n]), device_rule_of(policy)
        devices = devices_for(pod.shape, left_D, count, device, rule, said.draw, policy.name)
    return SuggestAnswer(
        api_version="v1",
        uid=pod.uid,
        policy=policy.name,
        node=best,
        gpu_index=gpu_index(devices),
        verdict=verdict(ranked, len(nodes)),
        filtered=filtered,
        best=[
            Suggested(one.node, one.total, {part: list(pair) for part, pair in one.scores.items()})
            for one in ranked[:BEST_SHOWN]
        ],
    )
