"""Trials of candidate parameters: one run each, judged by a few figures beside those of the baseline.

A trial is text and numbers, so it can be carried out by any process or machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import GPU_MILLI, BoolArray
from pilotage.policies.api import Policy
from pilotage.policies.priced import Priced
from pilotage.policies.registry import find_policy
from pilotage.sim.bound import arrived_within, packing_bound
from pilotage.sim.protocols import mix_of
from pilotage.sim.run import Run, RunSettings
from pilotage.sim.specs import TraceSource
from pilotage.workloads.arrivals import OpenbArrival, openb_arrival
from pilotage.workloads.trace import Trace

Objective = Literal["packing", "balance"]
BASELINES: dict[Objective, str] = {"packing": "fgd", "balance": "least-allocated"}
L0_OF_FGD = 0.96  # the forced load of the packing bound, by convention
LEAST_ROOM = 0.5  # percent of capacity: where there is hardly any room, its share is noise


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run is judged by."""

    allocation: float  # percent of GPU capacity
    lost: float  # percent of GPU capacity that was refused while the arrived load was below L0
    failed_cpu: int  # CPU-only pods
    failed_multi: int  # pods with several devices
    failed: int
    cpu_variance: float  # of used / capacity over nodes
    memory_variance: float


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
        return L0_OF_FGD * self.baseline / 100


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


def figures_of(trace: Trace, policy: Policy, seed: int, load: float, forced_load: float) -> Figures:
    arrival = arrival_of(trace, load, seed)
    settings = RunSettings(seed=seed, tape=False)
    run = Run(trace.nodes, arrival.workload, policy, settings, rank_N=arrival.rank_N, mix=mix_of(trace))
    run.advance()
    refused_P: BoolArray = run.scene.progress.node_P < 0
    gpu_P = arrival.workload.gpu_milli_P
    devices_P = np.array([shape.gpu_count for shape in arrival.workload.shapes])[arrival.workload.shape_P]
    arrays = run.state.arrays
    devices = int(arrays.device_count_N.sum())
    percent = 100 / max(GPU_MILLI * devices, 1)
    early_P = arrived_within(arrival.workload, devices, forced_load) if devices else refused_P
    used_NR = 1 - arrays.free_NR[:, :2] / np.maximum(arrays.capacity_NR[:, :2], 1)
    return Figures(
        allocation=float(gpu_P[~refused_P].sum()) * percent,
        lost=float(gpu_P[refused_P & early_P].sum()) * percent,
        failed_cpu=int((refused_P & (devices_P == 0)).sum()),
        failed_multi=int((refused_P & (devices_P > 1)).sum()),
        failed=int(refused_P.sum()),
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
        packing_bound(arrival_of(trace, load, seed).workload, devices, L0_OF_FGD * baseline / 100).bound_percent
        for seed in seeds
    ]
    known = [bound for bound in bounds if bound is not None]
    return Yardstick(baseline, float(np.mean(known)) if known else baseline)
