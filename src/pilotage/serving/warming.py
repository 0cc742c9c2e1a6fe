"""Compiles and rehearses what policies need before anybody waits for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView
from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.serving.offered import Offered
from pilotage.serving.scoring import Scoring

_SHAPES = (PodShape(1000, 2**30), PodShape(1000, 2**30, gpu_milli=500, gpu_count=1))


def warmed(offered: Offered, mix: WorkloadMix | None = None) -> Offered:
    """Each scores a small cluster; a policy that fails does so here, with its name, and not in front of a caller."""
    cache = ClusterCache()
    cache.set_nodes([Node("a", 4000, 2**34, gpu_count=2), Node("b", 8000, 2**35)])
    scoring = Scoring(cache, lambda: offered, mix or WorkloadMix(_SHAPES, np.ones(len(_SHAPES), np.int64)))
    warm = {}
    for key in offered.policies:
        for number, shape in enumerate(_SHAPES):
            said = scoring.verdict(PodView(f"{number}", "default", "warm-up", shape), key)
            said.of(np.arange(2))
            warm[key] = said.policy
    return replace(offered, warm=warm)
