"""One part of a report: everything found out about one trace at one load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pilotage.report.metrics import CPU_METRICS, GPU_METRICS, SELDOM

if TYPE_CHECKING:
    from pilotage.sim.bound import PackingBound
    from pilotage.sim.compare import Outcome, Row
    from pilotage.sim.results import RunResult
    from pilotage.workloads.trace import Trace

Item = TypeVar("Item")


@dataclass(frozen=True)
class Section:
    """Runs, summary rows and bounds of one trace and load, policies in the order of the comparison."""

    trace: Trace
    load: float
    protocol: str
    policies: tuple[str, ...]
    rows: dict[tuple[str, str], Row]  # by policy and metric
    runs: tuple[RunResult, ...]
    bounds: tuple[PackingBound, ...]  # one per seed, or none

    @cached_property
    def gpus(self) -> int:
        return sum(node.gpu_count for node in self.trace.nodes)

    @cached_property
    def cores(self) -> float:
        return sum(node.cpu_milli for node in self.trace.nodes) / 1000

    @property
    def main_metric(self) -> str:
        """What policies are ranked by."""
        return "gpu_allocation_percent" if self.gpus else "cpu_allocation_percent"

    @property
    def unit(self) -> str:
        """What a share of the capacity is counted in."""
        return "GPUs" if self.gpus else "CPU cores"

    @property
    def capacity(self) -> float:
        return float(self.gpus or self.cores)

    @property
    def baseline(self) -> str:
        return self.row(self.policies[0]).baseline

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics worth a column: measured for some policy, and not zero throughout where that is the rule."""
        known = GPU_METRICS if self.gpus else CPU_METRICS
        found = {m: [self.rows[p, m].mean for p in self.policies if (p, m) in self.rows] for m in known}
        return tuple(m for m, means in found.items() if means and (m not in SELDOM or any(means)))

    @property
    def bound(self) -> float | None:
        """The packing bound, mean over the seeds; None where one seed has none."""
        found = [bound.bound_percent for bound in self.bounds if bound.bound_percent is not None]
        return sum(found) / len(found) if found and len(found) == len(self.bounds) else None

    def row(self, policy: str, metric: str | None = None) -> Row:
        return self.rows[policy, metric or self.main_metric]

    def runs_of(self, policy: str) -> list[RunResult]:
        """One run per seed, in the order of the seeds for every policy."""
        return sorted((run for run in self.runs if run.policy == policy), key=lambda run: run.seed)

    def load_words(self) -> str:
        if not self.load:
            return "load as recorded"
        return f"{100 * self.load:g} % load"


def sections_of(outcome: Outcome) -> list[Section]:
    """Sections by trace, then load, in the order of the comparison."""
    found = []
    for trace in outcome.traces:
        own = [row for row in outcome.summary if row.trace == trace.name]
        for load in _distinct(row.load for row in own):
            rows = [row for row in own if row.load == load]
            found.append(
                Section(
                    trace,
                    load,
                    outcome.comparison.protocol,
                    policies=_distinct(row.policy for row in rows),
                    rows={(row.policy, row.metric): row for row in rows},
                    runs=tuple(run for run in outcome.runs if (run.trace, run.load) == (trace.name, load)),
                    bounds=tuple(b for (name, at, _), b in outcome.bounds.items() if (name, at) == (trace.name, load)),
                )
            )
    return found


def _distinct(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))
