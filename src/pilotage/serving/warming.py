"""Compiles and rehearses what policies need before anybody waits for it."""

from __future__ import annotations

import gc
from dataclasses import replace

import msgspec
import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.kube.podview import PodView
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape
from pilotage.policies.api import WorkloadMix
from pilotage.serving.callers import Sessions
from pilotage.serving.offered import Offered
from pilotage.serving.scoring import Scoring
from pilotage.serving.v1 import Api
from pilotage.serving.wire import ScoreRequest, SuggestRequest

_SHAPES = (PodShape(1000, 2**30), PodShape(1000, 2**30, gpu_milli=500, gpu_count=1))
_MIX = WorkloadMix(_SHAPES, np.ones(len(_SHAPES), np.int64))
_QUESTION = {
    "apiVersion": "v1",
    "session": "warm-up",
    "pod": {
        "metadata": {
            "uid": "warm-up",
            "name": "warm-up",
            "namespace": "default",
            "annotations": {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-count": "1"},
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
    },
    "candidates": [
        {
            "name": name,
            "generation": 1,
            "state": {
                "allocatable": {
                    "cpuMilli": 4000,
                    "memoryBytes": 2**34,
                    "pods": 110,
                    "extended": {"alibabacloud.com/gpu-count": 2},
                }
            },
        }
        for name in ("a", "b")
    ],
}


def warmed(offered: Offered, mix: WorkloadMix | None = None) -> Offered:
    """Each scores a small cluster; a policy that fails does so here, with its name, and not in front of a caller."""
    cache = ClusterCache()
    cache.set_nodes([Node("a", 4000, 2**34, gpu_count=2), Node("b", 8000, 2**35)])
    scoring = Scoring(cache, lambda: offered, mix or _MIX)
    warm = {}
    for key in offered.policies:
        for number, shape in enumerate(_SHAPES):
            said = scoring.verdict(PodView(f"{number}", "default", "warm-up", shape), key)
            said.of(np.arange(2))
            warm[key] = said.policy
    _ask()
    return replace(offered, warm=warm)


def _ask() -> None:
    """What answers need beside policies: snapshots of callers, filters, devices. Any policy does for that."""
    any_ = Offered.read(("best-fit",))
    api = Api(Sessions(lambda addresses: Scoring(ClusterCache(), lambda: any_, _MIX), SystemClock()))
    api.score(msgspec.convert(_QUESTION, ScoreRequest))
    api.suggest(msgspec.convert(_QUESTION, SuggestRequest))


def settle() -> None:
    """For a process that does nothing but serve, when it is warm: what is there by now stays, so it is not looked
    through again and again for garbage. With all modules that takes nearly a tenth of a second, and requests wait."""
    gc.collect()
    gc.freeze()
