"""A policy that is asked about the pods of any scheduler and places none: what it would have done."""

from __future__ import annotations

from dataclasses import replace

from pilotage.dashboard.source import Judgement
from pilotage.kube.cache import ClusterCache
from pilotage.kube.mixture import Mixture
from pilotage.kube.podview import PodView
from pilotage.kube.readying import Readying, prepare
from pilotage.kube.undecided import undecided
from pilotage.model.outcome import Scheduled, Unschedulable
from pilotage.policies.api import Policy
from pilotage.scheduler.cycle import Cycle

PROFILE = "shadow"


class Shadow:
    """Decides on a cache of its own, pod by pod; gangs are not looked at as a whole."""

    def __init__(self, cache: ClusterCache, policy: Policy) -> None:
        self.name = policy.name
        self._cache, self._policy = cache, policy
        self._cycle, self._mixture, self._readying = Cycle(cache, {PROFILE: policy}), Mixture(cache), Readying()

    def advise(self, pod: PodView, actual: str) -> Judgement | None:
        """About a pod that `actual` is about to get. The room it would take here is given back at once."""
        prepare(self._cycle, self._mixture, self._readying, {PROFILE: self._policy})
        if not self._cache.state.nodes or undecided(pod, self._cache):
            return None
        advice = self._cycle.advise(replace(pod, scheduler=PROFILE), actual)
        match advice.outcome:
            case Scheduled(node, _, choice):
                said, best, rank = choice.verdict, choice.best, advice.rank
                return Judgement(self.name, node, said, best, choice.candidates, choice.reasons, rank, shadow=True)
            case Unschedulable(reasons=reasons):
                return Judgement(self.name, "", advice.outcome.message, filtered=reasons, shadow=True)
        return None
