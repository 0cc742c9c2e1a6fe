"""Compiles what policies need before anybody waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView
from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape
from pilotage.policies.api import Policy
from pilotage.serving.offered import Offered
from pilotage.serving.scoring import Scoring

_SHAPES = (PodShape(1000, 2**30), PodShape(1000, 2**30, gpu_milli=500, gpu_count=1))


def _same(offered: Offered) -> Offered:
    return offered


def warm_up(policies: Sequence[Policy]) -> None:
    """Each scores a small cluster; a policy that fails does so here, with its name, and not in front of a caller."""
    for policy in policies:
        cache = ClusterCache()
        cache.set_nodes([Node("a", 4000, 2**34, gpu_count=2), Node("b", 8000, 2**35)])
        alone = Offered({policy.name: policy})
        scoring = Scoring(cache, partial(_same, alone))
        for number, shape in enumerate(_SHAPES):
            scoring.verdict(PodView(f"{number}", "default", "warm-up", shape), None).of(np.arange(2))
