"""Figures over time, kept here so that a page that is opened later shows what was before."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pilotage.dashboard.source import NodeTable, used_devices
from pilotage.dashboard.tally import Tally, quantile

SAMPLE_SECONDS = 2.0
SAMPLES = 900  # half an hour
WINDOW_SECONDS = 30.0  # whose decisions count for latency
MOST_OWN = 8  # curves that a source may add
OBJECTIVE = ("pieces", "imbalance")  # less is better

Sample = dict[str, float | None]


@dataclass
class Curves:
    """The newest samples, oldest first."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    _placed: int = 0

    def due(self, time: float) -> bool:
        return not self.samples or time - (self.samples[-1]["time"] or 0.0) >= SAMPLE_SECONDS

    def take(self, time: float, table: NodeTable, waiting: int, tally: Tally, own: Mapping[str, float]) -> Sample:
        """Looks at everything once."""
        waits = tally.waits_since(time - WINDOW_SECONDS)
        since = time - (self.samples[-1]["time"] or 0.0) if self.samples else 0.0
        figures, placed = cluster_figures(table), tally.placed - self._placed
        found: Sample = {
            "time": time,
            **figures,
            "reward": self._reward(figures, placed),
            "waiting": waiting,
            "rate": round(placed / since, 3) if since > 0 else None,
            "half": quantile(waits, 0.5),
            "most": quantile(waits, 0.99),
            **{f"own {name}": value for name, value in list(own.items())[:MOST_OWN]},
        }
        self._placed = tally.placed
        self.samples.append(found)
        return found

    def _reward(self, figures: Sample, placed: int) -> float | None:
        """As environments have it: by how much the objective became better, here for each pod that was placed."""
        if not self.samples or placed <= 0:
            return None
        gained = [
            before - now
            for before, now in ((self.samples[-1][name], figures[name]) for name in OBJECTIVE)
            if before is not None and now is not None
        ]
        return round(sum(gained) / placed, 3) if gained else None


def cluster_figures(table: NodeTable) -> Sample:
    """Allocated shares in percent; None where there is nothing to allocate."""
    capacity_3, used_3 = table.capacity_N3.sum(axis=0), table.used_N3.sum(axis=0)
    used_ND = used_devices(table)
    devices = int(table.device_count_N.sum())
    there_ND = used_ND >= 0
    share_N = table.used_N3[:, 0] / np.maximum(table.capacity_N3[:, 0], 1)
    return {
        "cpu": _percent(int(used_3[0]), int(capacity_3[0])),
        "memory": _percent(int(used_3[1]), int(capacity_3[1])),
        "gpu": _percent(int(used_ND[there_ND].sum()), 1000 * devices),
        # What is left on devices that are in use: only a pod with a small enough share can have it.
        "pieces": _percent(int((1000 - used_ND[used_ND > 0]).clip(min=0).sum()), 1000 * devices),
        "imbalance": round(100 * float(share_N.std()), 2) if len(share_N) else None,
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None
