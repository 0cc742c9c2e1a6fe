"""The dashboard inside the service: the cluster as it follows it, and what its policy said of pods that others bind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pilotage.dashboard.source import Judgement, Overview
from pilotage.dashboard.watching import WatchedCluster
from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kube.podview import PodView
from pilotage.model.outcome import Choice
from pilotage.model.workload import FloatArray

PODS_KEPT = 256  # scored, but not bound yet
BEST_KEPT = 5


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer to kube-scheduler."""

    policy: str
    names: Sequence[str]
    total_C: FloatArray


@dataclass
class ScoredPods:
    """An Advisor: what was answered when a pod was asked about, told when somebody has bound it."""

    name: str
    _pods: OrderedDict[str, Scored] = field(default_factory=OrderedDict)

    def note(self, uid: str, scored: Scored) -> None:
        self._pods.pop(uid, None)
        self._pods[uid] = scored
        while len(self._pods) > PODS_KEPT:
            self._pods.popitem(last=False)

    def advise(self, pod: PodView, actual: str) -> Judgement | None:
        scored = self._pods.pop(pod.uid, None)
        if scored is None:
            return None
        fits = np.flatnonzero(scored.total_C != INFEASIBLE)
        total_C = scored.total_C[fits]
        names = [scored.names[c] for c in fits.tolist()]
        if not names:
            return None
        # Of equally good ones kube-scheduler may take any: where it took one of the best, it did what was said.
        order = sorted(range(len(names)), key=lambda c: (-total_C[c], names[c] != actual, names[c]))[:BEST_KEPT]
        best = tuple((names[c], float(total_C[c])) for c in order)
        rank = 1 + int((total_C > total_C[names.index(actual)]).sum()) if actual in names else 0
        said = Choice(scored.policy, best, len(names), len(scored.names)).verdict
        return Judgement(scored.policy, best[0][0], said, best, len(names), (), rank, shadow=True)


@dataclass
class ServedCluster(WatchedCluster):
    """A Source. Its informers are the service's own."""

    obstacle: Callable[[], str] = lambda: ""

    def overview(self) -> Overview:
        return replace(super().overview(), problem=self.obstacle())
