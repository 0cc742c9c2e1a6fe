"""Consolidation: some running pods are moved so that the others pack better, and what the moves cost.

No pod is lost by it. Where nothing departs (OpenB protocol), a pod leaves its node only for another place that was
found for it first. Over time, moved pods wait in the queue as everybody does, with what is left of their time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite

import numpy as np

from pilotage.kernels.episode import empty_tape, step
from pilotage.kernels.events import move_out
from pilotage.kernels.meters import AMOUNTS, measure_all
from pilotage.kernels.scene import ARRIVED, REFUSED, RUNS
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import GPU_MILLI, FloatArray
from pilotage.sim.descheduling import METHODS, budget_of, victims
from pilotage.sim.run import Run

LEAST_FALL = 1.0  # GPU milli of fragmentation that a move must save; less may be rounding
MOST_ROUNDS = 100_000
USUAL_ROUNDS = 10
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Which pods are moved, how many, how often."""

    method: str  # of sim.descheduling
    budget: float = 0.02  # share of the running pods that may be moved in a round
    every_hours: float | None = None  # simulated time between rounds; None: ten in all, or one where there is no time

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS, field="--consolidate")
        if not 0 <= self.budget <= 1:
            raise InputError(f"{self.budget:g}", field="--budget", expected="a share of the pods, 0 to 1")
        if self.every_hours is not None and not (isfinite(self.every_hours) and self.every_hours > 0):
            raise InputError(f"{self.every_hours:g} hours", field="--every", expected="more than 0 hours")


@dataclass(frozen=True, slots=True)
class Moves:
    """What consolidation cost."""

    pods: int = 0
    gpus: float = 0.0  # of these pods
    gpu_hours: float | None = None  # for which they had run since they were placed; None where there is no time

    def and_then(self, other: Moves) -> Moves:
        hours = [value for value in (self.gpu_hours, other.gpu_hours) if value is not None]
        return Moves(self.pods + other.pods, self.gpus + other.gpus, sum(hours) if hours else None)


@dataclass(frozen=True)
class Consolidated:
    """A run of the OpenB protocol after consolidation; the run itself holds where the pods are now."""

    moves: Moves
    placed_again: int  # pods that had been refused and found a place then
    before_M: FloatArray  # meters (kernels.meters) at the end of the run
    after_M: FloatArray  # and after consolidation


# Where nothing departs


def consolidate_openb(run: Run, consolidation: Consolidation) -> Consolidated:
    """One round at the end of a finished run; then refused pods are offered again, in order of arrival.

    Pods leave one at a time, in the order of `victims`, and are placed by the policy of the run. Where the policy
    finds no better place (F of the cluster must fall) the pod keeps its node and devices, so every move can be made
    and no pod is lost. The tape of the run stays as it was.
    """
    if consolidation.every_hours is not None:
        raise InputError("no time passes in the OpenB protocol", field="--every", expected="a timed run")
    progress, meters = run.scene.progress, run.scene.meters
    before_M = meters.total_M.copy()
    budget = budget_of(consolidation.budget, int((progress.state_P == RUNS).sum()))
    tape, run.tape = run.tape, empty_tape(0, 0)
    try:
        moved = [pod for pod in victims(run, consolidation.method, budget) if _moves_to_better_place(run, pod)]
        refused = np.flatnonzero(progress.state_P == REFUSED)
        for pod in refused.tolist():
            _offer_again(run, pod)
    finally:
        run.tape = tape
    measure_all(run.scene.cluster, meters)  # sums in the order of nodes, without the rounding of the way here
    return Consolidated(
        moves=Moves(len(moved), _gpus(run, moved)),
        placed_again=int((progress.state_P[refused] == RUNS).sum()),
        before_M=before_M,
        after_M=meters.total_M.copy(),
    )


def _moves_to_better_place(run: Run, pod: int) -> bool:
    """The pod is placed anew; whether that was worth it. If not, it is back where it was."""
    progress, duration_P = run.scene.progress, run.scene.timeline.duration_P
    node, devices = int(progress.node_P[pod]), int(progress.devices_P[pod])
    before_N = _fragmented_N(run)
    move_out(run.scene, np.array([pod]), duration_P)
    run.advance()  # decides about the one pod that waits; its old place is free, so it finds one
    if (progress.node_P[pod], progress.devices_P[pod]) == (node, devices):
        return False
    if (before_N - _fragmented_N(run)).sum() >= LEAST_FALL:
        return True
    move_out(run.scene, np.array([pod]), duration_P)
    step(run.scene, run.tape, pod, node, devices)
    return False


def _fragmented_N(run: Run) -> FloatArray:
    """F of each node."""
    amount_N7 = run.scene.meters.node_NM[:, AMOUNTS : AMOUNTS + 7]
    fragmented_N: FloatArray = amount_N7.sum(axis=1) - amount_N7[:, 2]
    return fragmented_N


def _offer_again(run: Run, pod: int) -> None:
    """A refused pod arrives once more, it alone."""
    counter_X = run.scene.progress.counter_X
    arrived = int(counter_X[ARRIVED])
    counter_X[ARRIVED] = pod
    run.advance(stop_at=pod + 1)
    counter_X[ARRIVED] = arrived


# Over time


def advance_with_consolidation(run: Run, consolidation: Consolidation) -> Moves:
    """Carries a timed run that has not begun to the end of its measured window, with a round every so many hours.

    Moved pods keep what they have done: they wait in the queue and run for what is left of their time, also when
    their node fails later. `run.advance_to` carries the run on to its end.
    """
    start, end = run.settings.measure
    moves = Moves(gpu_hours=0.0)
    for moment in rounds_between(start, end, consolidation.every_hours):
        run.advance_to(moment)
        moves = moves.and_then(_move_out_some(run, consolidation))
    run.advance_to(end)
    return moves


def rounds_between(start: float, end: float, every_hours: float | None) -> list[float]:
    window = (end - start) / HOUR
    if every_hours is None:
        every_hours = window / (USUAL_ROUNDS + 1)
    rounds = window / every_hours
    if not 1 <= rounds <= MOST_ROUNDS:
        problem = f"{every_hours:g} hours: {rounds:.3g} rounds in the {window:.4g} hours that are measured"
        raise InputError(problem, field="--every", expected=f"1 to {MOST_ROUNDS} rounds")
    moments = (start + k * every_hours * HOUR for k in range(1, floor(rounds) + 1))
    return [moment for moment in moments if moment < end]  # moves at the end would cost and could gain nothing


def _move_out_some(run: Run, consolidation: Consolidation) -> Moves:
    scene = run.scene
    progress, now = scene.progress, float(scene.progress.now_1[0])
    chosen = victims(run, consolidation.method, budget_of(consolidation.budget, int((progress.state_P == RUNS).sum())))
    if not chosen:
        return Moves()
    gpu_P = run.workload.gpu_milli_P[chosen] / GPU_MILLI
    hours_P = (now - progress.placed_at_P[chosen]) / HOUR
    move_out(scene, np.array(chosen), progress.ended_at_P - now)
    return Moves(len(chosen), float(gpu_P.sum()), float((gpu_P * hours_P).sum()))


def _gpus(run: Run, pods: list[int]) -> float:
    return float(run.workload.gpu_milli_P[pods].sum()) / GPU_MILLI if pods else 0.0
