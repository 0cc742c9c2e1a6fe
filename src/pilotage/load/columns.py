"""Measurements of nodes as the columns that policies read, with their age.

A node without a fresh measurement has the mean of those that have one: neither better nor worse. Where none has, all
columns are 0 and the age is -1: no policy can tell nodes apart by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.features import LOAD, LOAD_AGE, NODE_FEATURES
from pilotage.load.settings import MEASURES, LoadSettings
from pilotage.model.clock import Clock
from pilotage.model.cluster import Node
from pilotage.model.workload import FloatArray

_COLUMN = {measure: NODE_FEATURES.index(f"load_{measure}") for measure in MEASURES}
_SHARES = ("cpu", "gpu")
NOT_MEASURED = -1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one node."""

    value: float
    time: float  # by the clock


@dataclass
class LoadColumns:
    """What was measured last."""

    settings: LoadSettings
    clock: Clock
    samples: dict[str, dict[str, Sample]] = field(default_factory=dict)  # by measure, then by node's name or address

    def take(self, measure: str, values: Mapping[str, float], age: float) -> None:
        """Replaces what is known of a measure: nodes that are not in an answer are not measured any more."""
        moment = self.clock.now() - age
        self.samples[measure] = {node: Sample(value, moment) for node, value in values.items()}

    def fill(self, nodes: Sequence[Node], node_NF: FloatArray, addresses: Mapping[str, str] | None = None) -> None:
        """Writes the load columns of all nodes as they are at this moment. `addresses`: InternalIPs by node, where
        known; each cluster has its own, as callers may say what they like of theirs."""
        now, names = self.clock.now(), [node.name for node in nodes]
        age_N = np.full(len(names), NOT_MEASURED)
        for measure, column in _COLUMN.items():
            value_N, fresh_N = np.zeros(len(names)), np.zeros(len(names), np.bool_)
            samples = self.samples.get(measure, {})
            for n, name in enumerate(names):
                sample = samples.get(name) or (samples.get(addresses.get(name, "")) if addresses else None)
                if sample is not None and now - sample.time <= self.settings.stale_seconds:
                    value_N[n], fresh_N[n] = sample.value, True
                    age_N[n] = max(age_N[n], now - sample.time)
            value_N[~fresh_N] = value_N[fresh_N].mean() if fresh_N.any() else 0.0
            node_NF[:, column] = value_N
        node_NF[:, LOAD_AGE] = age_N
        node_NF[:, LOAD] = self._busiest(node_NF)

    def _busiest(self, node_NF: FloatArray) -> FloatArray:
        """One figure, 0..1: the busiest of CPU, GPU and network."""
        network_N = np.maximum(node_NF[:, _COLUMN["receive"]], node_NF[:, _COLUMN["transmit"]])
        shares = [node_NF[:, _COLUMN[measure]] for measure in _SHARES]
        busiest: FloatArray = np.clip(
            np.max([*shares, network_N / self.settings.link_bytes_per_second], axis=0), 0.0, 1.0
        )
        return busiest

    def fresh_nodes(self) -> int:
        """Nodes of which something is known that is not stale."""
        return len(set(self._fresh()))

    def fresh_samples(self) -> int:
        """Values that are not stale: one may be while others of its node are not."""
        return sum(1 for _ in self._fresh())

    def _fresh(self) -> Iterator[str]:
        now = self.clock.now()
        return (
            node
            for samples in self.samples.values()
            for node, sample in samples.items()
            if now - sample.time <= self.settings.stale_seconds
        )
