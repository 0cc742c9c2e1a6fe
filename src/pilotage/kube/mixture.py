"""What the cluster's pods are made of, as policies are prepared for it; renewed when it has moved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from pilotage.kube.cache import ClusterCache
from pilotage.model.workload import PodShape
from pilotage.policies.api import ClusterSize, WorkloadMix

GROWTH = 2.0  # times as many pods as when it was last looked at
FEWEST_ARRIVALS = 200  # after which it is worth comparing what there is with what there was
DRIFT = 0.25  # share of the pods that would have to be others


@dataclass
class Mixture:
    """Either given (a trace that stands for what will come), or observed."""

    cache: ClusterCache
    given: WorkloadMix | None = None
    _pods: Counter[PodShape] = field(default_factory=Counter)  # when it was taken
    _total: int = 0  # of them: this is asked for before every decision
    _arrived: int = 0  # pods, when it was last looked at
    _cluster: tuple[tuple[str, ...], ClusterSize] | None = None
    _epoch: int = -1

    def moved(self) -> bool:
        """Whether policies should be prepared again: other GPU models or machines, many more pods, or others."""
        state = self.cache.state
        if self._epoch != self.cache.epoch:
            self._epoch = self.cache.epoch
            if self._cluster != (state.models, ClusterSize.of(state)):
                return True
        return self.given is None and (self._grown() or self._drifted())

    def _grown(self) -> bool:
        return len(self.cache.pods) > GROWTH * max(self._total, 10)

    def _drifted(self) -> bool:
        """Looked at only when as many pods have come as there are: counting them all takes a while."""
        if self.cache.arrived - self._arrived < max(len(self.cache.pods), FEWEST_ARRIVALS):
            return False
        self._arrived = self.cache.arrived
        now = self._shapes()
        if not now or not self._pods:
            return bool(now)
        stayed = sum(min(count / now.total(), self._pods[shape] / self._total) for shape, count in now.items())
        return 1 - stayed > DRIFT

    def take(self) -> WorkloadMix:
        """The mix now; from now on it is this one that it moves away from."""
        state = self.cache.state
        self._cluster, self._arrived = (state.models, ClusterSize.of(state)), self.cache.arrived
        self._pods = self._shapes()
        self._total = self._pods.total()
        return self.now()

    def now(self) -> WorkloadMix:
        return (self.given or self._observed()).on(self.cache.state)

    def _shapes(self) -> Counter[PodShape]:
        return Counter(pod.shape for pod in self.cache.pods.values())

    def _observed(self) -> WorkloadMix:
        # Policies need something to expect.
        counts = self._shapes() or Counter([PodShape(cpu_milli=1000, memory_bytes=2**30)])
        return WorkloadMix(tuple(counts), np.array(list(counts.values()), np.int64))
