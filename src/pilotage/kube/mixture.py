"""What the cluster's pods are made of, as policies are prepared for it; renewed when it has moved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.model.workload import PodShape
from pilotage.policies.api import ClusterSize, WorkloadMix

GROWTH = 2.0  # times as many pods as when it was last looked at


@dataclass
class Mixture:
    """Either given (a trace that stands for what will come), or observed."""

    cache: ClusterCache
    given: WorkloadMix | None = None
    _pods: int = -1
    _cluster: tuple[tuple[str, ...], ClusterSize] | None = None
    _epoch: int = -1

    def moved(self) -> bool:
        """Whether policies should be prepared again: other GPU models or machines, or many more pods."""
        state = self.cache.state
        if self._epoch != self.cache.epoch:
            self._epoch = self.cache.epoch
            if self._cluster != (state.models, ClusterSize.of(state)):
                return True
        return self.given is None and len(self.cache.pods) > GROWTH * max(self._pods, 10)

    def take(self) -> WorkloadMix:
        """The mix now; from now on it is this one that it moves away from."""
        state = self.cache.state
        self._cluster, self._pods = (state.models, ClusterSize.of(state)), len(self.cache.pods)
        return self.now()

    def now(self) -> WorkloadMix:
        return (self.given or self._observed()).on(self.cache.state)

    def _observed(self) -> WorkloadMix:
        counts = Counter(pod.shape for pod in self.cache.pods.values())
        if not counts:
            counts[PodShape(cpu_milli=1000, memory_bytes=2**30)] = 1  # policies need something to expect
        return WorkloadMix(tuple(counts), np.array(list(counts.values()), np.int64))
