"""What a run allocated and what it refused, and what refusals cost beside a baseline's.

Allocation alone would favour turning pods away early, so that others fit better. Three figures say whether that is so:
what was lost while there was room (before L0), and refused pods without GPU or with several devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from pilotage.kernels.feasibility import ShapeArrays
from pilotage.model.workload import GPU_MILLI, IntArray, within_load

L0_OF_BASELINE = 0.96  # the forced load of the packing bound, by convention, of the allocation that FGD reaches
TOLERATED_LOST = 0.1  # percent of capacity beyond the baseline's
FEWEST_FAILED = 25  # a baseline that fails fewer counts as this


@dataclass(frozen=True, slots=True)
class Refusals:
    """Of one run in which pods come and stay."""

    allocation: float  # percent of GPU capacity
    lost: float  # percent of GPU capacity that was refused while the arrived load was below L0
    failed_cpu: float  # CPU-only pods
    failed_multi: float  # pods with several devices


def mean_of(runs: Sequence[Refusals]) -> Refusals:
    return Refusals(
        allocation=fmean(run.allocation for run in runs),
        lost=fmean(run.lost for run in runs),
        failed_cpu=fmean(run.failed_cpu for run in runs),
        failed_multi=fmean(run.failed_multi for run in runs),
    )


def refusals_of(shapes: ShapeArrays, shape_P: IntArray, node_P: IntArray, devices: int, forced_load: float) -> Refusals:
    """`node_P`: where each pod went, -1 = nowhere. `devices`: of the cluster. `forced_load`: L0."""
    gpu_P, wanted_P = (shapes.gpu_milli_S * shapes.gpu_count_S)[shape_P], shapes.gpu_count_S[shape_P]
    refused_P = node_P < 0
    early_P = within_load(gpu_P, devices, forced_load) if devices else refused_P
    percent = 100 / max(GPU_MILLI * devices, 1)
    return Refusals(
        allocation=float(gpu_P[~refused_P].sum()) * percent,
        lost=float(gpu_P[refused_P & early_P].sum()) * percent,
        failed_cpu=int((refused_P & (wanted_P == 0)).sum()),
        failed_multi=int((refused_P & (wanted_P > 1)).sum()),
    )


def cost_of(own: Refusals, baseline: Refusals, of_failed: float) -> float:
    """Of pods that the baseline would have placed; `of_failed`: of FEWEST_FAILED more, where it fails few."""
    failed = _excess(own.failed_cpu, baseline.failed_cpu) + _excess(own.failed_multi, baseline.failed_multi)
    return max(0.0, own.lost - baseline.lost - TOLERATED_LOST) + of_failed * failed


def cost_near(
    own: Refusals, baseline: Refusals, around: Refusals, around_baseline: Refusals, of_failed: float
) -> float:
    """The same as a plane, for one of many runs that are near each other, by what they come to on the mean: what is
    refused too often there costs by how much more it is than by the baseline, or saves by how much less, and nothing
    else costs. What is chance evens out then."""
    cost = 0.0
    if around.lost > around_baseline.lost + TOLERATED_LOST / 2:
        cost += own.lost - baseline.lost
    for name in ("failed_cpu", "failed_multi"):
        failed, usual = getattr(own, name), getattr(baseline, name)
        if getattr(around, name) > getattr(around_baseline, name):
            cost += of_failed * (failed - usual) / _spread_of(usual)
    return cost


def _excess(own: float, baseline: float) -> float:
    """Beside chance: counts of many vary by the square root of what they are, so two in a hundred too many are worse
    where thousands fail than where a few do."""
    return max(0.0, own - baseline) / _spread_of(baseline)


def _spread_of(baseline: float) -> float:
    return sqrt(max(baseline, FEWEST_FAILED) * FEWEST_FAILED)
