"""Trials of candidate parameters: one run each, judged by a few figures beside those of the baseline.

A trial is text and numbers, so it can be carried out by any process or machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from pilotage.model.cluster import ClusterState
from pilotage.model.errors import InputError
from pilotage.policies.api import Policy, WorkloadMix, compiled_rules, device_rule_of, prepared
from pilotage.policies.priced import Priced
from pilotage.policies.refusals import L0_OF_BASELINE, Refusals, refusals_of
from pilotage.policies.registry import find_policy
from pilotage.policies.scenes import Filling
from pilotage.policies.workload_facts import WorkloadFacts
from pilotage.sim.bound import packing_bound
from pilotage.sim.protocols import mix_of
from pilotage.sim.specs import TraceSource
from pilotage.workloads.arrivals import OpenbArrival, openb_arrival
from pilotage.workloads.trace import Trace

Objective = Literal["packing", "balance"]
BASELINES: dict[Objective, str] = {"packing": "fgd", "balance": "least-allocated"}
LEAST_ROOM = 0.5  # percent of capacity: where there is hardly any room, its share is noise


@dataclass(frozen=True, slots=True)
class Figures(Refusals):
    """What a run is judged by."""

    failed: float
    cpu_variance: float  # of used / capacity over nodes
    memory_variance: float


def mean_figures(runs: Sequence[Figures]) -> Figures:
    return Figures(*np.mean([astuple(run) for run in runs], axis=0).tolist())


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What a workload allows, on the mean of some seeds: the baseline's allocation and the packing bound, percent."""

    baseline: float
    bound: float

    @property
    def room(self) -> float:
        return max(self.bound - self.baseline, LEAST_ROOM)

    @property
    def forced_load(self) -> float:
        return L0_OF_BASELINE * self.baseline / 100


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: a workload, a seed, and a policy by name or by its parameters."""

    source: TraceSource
    seed: int
    load: float
    forced_load: float  # L0, a fraction of the GPU capacity
    policy: str
    parameters: tuple[float, ...] = ()  # of a policy that prices leftovers; none: `policy` is a registered one

    def carry_out(self, trace: Trace | None = None) -> Figures:
        """Runs it; a machine that cannot read the trace is given it."""
        chosen = Priced(self.policy, np.array(self.parameters)) if self.parameters else _policy(self.policy)
        return figures_of(trace or self.source.load(), chosen, self.seed, self.load, self.forced_load)


@lru_cache(maxsize=8)
def _policy(text: str) -> Policy:
    return find_policy(text)


@lru_cache(maxsize=64)  # the workloads of a generation, which all its candidates share
def arrival_of(trace: Trace, load: float, seed: int) -> OpenbArrival:
    return openb_arrival(trace.workload, trace.nodes, load, seed)


@dataclass(frozen=True)
class Stage:
    """The cluster of a trace, and its pods as they come with one seed."""

    filling: Filling
    mix: WorkloadMix
    facts: WorkloadFacts


@lru_cache(maxsize=64)
def stage_of(trace: Trace, load: float, seed: int) -> Stage:
    arrival = arrival_of(trace, load, seed)
    shapes = arrival.workload.shapes
    nodes = [trace.nodes[n] for n in np.argsort(arrival.rank_N)]
    state = ClusterState(nodes, {name for shape in shapes for name, _ in shape.extended})
    mix = mix_of(trace).on(state)
    return Stage(Filling.of(state, shapes, arrival.workload.shape_P), mix, WorkloadFacts.of(mix))


def figures_of(trace: Trace, policy: Policy, seed: int, load: float, forced_load: float) -> Figures:
    """Of a run by the OpenB protocol, without what that measures on the way."""
    stage = stage_of(trace, load, seed)
    ready = policy.priced_by(stage.facts) if isinstance(policy, Priced) else prepared(policy, stage.mix)
    rules = compiled_rules(ready)
    if rules is None:
        raise InputError(f"{policy.name} is not compiled: it cannot be tried")
    scene = stage.filling.filled(rules, device_rule_of(ready), seed)
    arrays, node_P = scene.cluster, scene.progress.node_P
    devices = int(arrays.device_count_N.sum())
    refusals = refusals_of(scene.shapes, scene.timeline.shape_P, node_P, devices, forced_load)
    used_NR = 1 - arrays.free_NR[:, :2] / np.maximum(arrays.capacity_NR[:, :2], 1)
    return Figures(
        **asdict(refusals),
        failed=int((node_P < 0).sum()),
        cpu_variance=float(used_NR[:, 0].var()),
        memory_variance=float(used_NR[:, 1].var()),
    )


def yardstick(source: TraceSource, seeds: tuple[int, ...], load: float) -> Yardstick:
    """Of the packing objective: FGD and the bound at FGD's forced load."""
    trace = source.load()
    devices = sum(node.gpu_count for node in trace.nodes)
    if not devices:
        raise InputError(f"trace {trace.name!r} has no GPU: there is nothing to pack", expected="--objective balance")
    baseline = float(np.mean([Trial(source, seed, load, 0.0, "fgd").carry_out().allocation for seed in seeds]))
    bounds = [
        packing_bound(arrival_of(trace, load, seed).workload, devices, L0_OF_BASELINE * baseline / 100).bound_percent
        for seed in seeds
    ]
    known = [bound for bound in bounds if bound is not None]
    return Yardstick(baseline, float(np.mean(known)) if known else baseline)
