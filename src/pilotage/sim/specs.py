"""One run, as text and numbers that can be sent to another process or machine, and how it is carried out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.policies.api import Policy
from pilotage.policies.registry import find_policy
from pilotage.sim.consolidation import Consolidation
from pilotage.sim.protocols import Timing, run_openb, run_timed
from pilotage.sim.results import RunResult
from pilotage.workloads.resizing import resized
from pilotage.workloads.trace import Trace, load_trace


@dataclass(frozen=True)
class TraceSource:
    """Where a trace comes from; every process reads it for itself."""

    nodes: Path | None = None
    pods: Path | None = None
    name: str | None = None
    nodes_factor: float = 1.0  # so many times its nodes, and its pods
    pods_factor: float = 1.0

    def load(self) -> Trace:
        return _load(self, tuple(_state(path) for path in (self.nodes, self.pods)))


def _state(path: Path | None) -> tuple[int, int] | None:
    """Changes when a file is written; not for what lies in directories."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None  # whoever reads it will say so
    return None if found is None else (found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _load(source: TraceSource, _state: object) -> Trace:
    trace = load_trace(nodes=source.nodes, pods=source.pods, name=source.name)
    if source.nodes_factor == source.pods_factor == 1.0:
        return trace
    return resized(trace, source.nodes_factor, source.pods_factor)


@lru_cache(maxsize=64)
def policy_of(text: str) -> Policy:
    return find_policy(text)


@dataclass(frozen=True)
class RunSpec:
    """One run."""

    source: TraceSource
    policy: str
    seed: int
    protocol: str  # "openb" or "timed"
    load: float = 1.3  # timed: 0 = the trace's own times
    timing: Timing = field(default_factory=Timing)
    consolidation: Consolidation | None = None
    leftover: bool = False  # whether the result holds what is left on the nodes
    digest: str = ""  # of the trace that is meant; "" = whatever the source holds

    @property
    def label(self) -> str:
        """The name of policy and variant in results."""
        name = policy_of(self.policy).name
        return name if self.consolidation is None else f"{name} +{self.consolidation.method}"

    def execute(self, trace: Trace | None = None, policy: Policy | None = None) -> tuple[RunResult, float]:
        """The result and the seconds it took, reading the trace not included.

        A machine that cannot read the trace or find the policy is given them.
        """
        trace, policy = trace or self.source.load(), policy or policy_of(self.policy)
        if self.digest and trace.digest != self.digest:
            raise InputError(f"the trace {trace.name!r} has changed since the comparison began", file=self.source.pods)
        started = time.perf_counter()
        if self.protocol == "openb":
            result = run_openb(trace, policy, self.seed, self.load, self.consolidation, leftover=self.leftover)
        else:
            result = run_timed(trace, policy, self.seed, self.timing, self.consolidation, leftover=self.leftover)
        return result, time.perf_counter() - started
