"""Why a pod went where it went: what took each node out, the scores of the rest, how ties were broken."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from pilotage.kernels.feasibility import FITS, NO_GPU_LEFT, NO_RESOURCE, NODE_DOWN, NOT_ELIGIBLE
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.api import DecisionBatch, Policy
from pilotage.policies.choose import score_candidates, total_scores
from pilotage.policies.weighted import WeightedSum


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node the pod fits on. `scores` holds, per part of the policy, the score as given and as weighed."""

    node: str
    rank: int
    total: float
    scores: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision."""

    pod: str
    request: str
    policy: str
    time: float
    filtered: dict[str, int]  # reason -> nodes
    candidates: tuple[Candidate, ...]  # best first
    node: str | None
    devices: tuple[int, ...]
    verdict: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def obstacle_text(code: int, resources: tuple[str, ...]) -> str:
    """The reason in words."""
    if code >= NO_RESOURCE:
        return f"not enough {resources[code - NO_RESOURCE]}"
    return {
        FITS: "fits",
        NODE_DOWN: "node is down",
        NOT_ELIGIBLE: "excluded by selector, taint or GPU model",
        NO_GPU_LEFT: "not enough GPU on its devices",
    }[code]


def count_reasons(obstacle_N: IntArray, resources: tuple[str, ...]) -> dict[str, int]:
    codes, counts = np.unique(obstacle_N[obstacle_N != FITS], return_counts=True)
    pairs = sorted(zip(counts.tolist(), codes.tolist(), strict=True), reverse=True)
    return {obstacle_text(code, resources): count for count, code in pairs}


def rank_candidates(
    policy: Policy,
    batch: DecisionBatch,
    names: tuple[str, ...],
    rank_N: IntArray,
    wish_N: FloatArray | None = None,
) -> tuple[Candidate, ...]:
    """Every candidate with its scores, in the order in which the chooser prefers them. Wishes of the pod are added."""
    parts, weights = (policy.parts, policy.weights) if isinstance(policy, WeightedSum) else ((policy,), (1.0,))
    scored = [(scores.raw_N, scores.totals()) for scores in (score_candidates(part, batch) for part in parts)]
    minmax = policy.normalise == "minmax" or wish_N is not None
    total_N = total_scores(score_candidates(policy, batch).raw_N[None], minmax)
    if wish_N is not None:
        total_N += wish_N
    feasible = np.flatnonzero(batch.feasible_BN[0])
    order = sorted(feasible.tolist(), key=lambda n: (-total_N[n], rank_N[n]))
    return tuple(
        Candidate(
            node=names[n],
            rank=int(rank_N[n]),
            total=float(total_N[n]),
            scores={
                part.name: (float(raw_N[n]), float(weight * own_N[n]))
                for part, weight, (raw_N, own_N) in zip(parts, weights, scored, strict=True)
            }
            | ({} if wish_N is None else {"wishes": (float(wish_N[n]), float(wish_N[n]))}),
        )
        for n in order
    )


def verdict(candidates: tuple[Candidate, ...], nodes: int) -> str:
    """Why the winner won, in one sentence."""
    if not candidates:
        return f"none of {nodes} nodes can take the pod"
    best = candidates[0]
    if len(candidates) == 1:
        return f"{best.node} is the only candidate, so its score does not matter"
    ties = sum(candidate.total == best.total for candidate in candidates)
    if ties > 1:
        return (
            f"{best.node} and {ties - 1} more share the highest total {best.total:g} of {len(candidates)} candidates; "
            f"{best.node} comes first in the order of nodes (rank {best.rank})"
        )
    ahead = best.total - candidates[1].total
    return f"{best.node} has the highest total {best.total:g} of {len(candidates)} candidates, {ahead:g} ahead"


def request_text(shape: PodShape) -> str:
    parts = [f"{shape.cpu_milli / 1000:g} CPU", f"{shape.memory_bytes / 2**30:.4g} GiB"]
    if shape.gpu_count:
        part = f" x {shape.gpu_milli} milli" if shape.gpu_milli < 1000 else ""
        parts.append(f"{shape.gpu_count} GPU{part}" + (f" ({shape.gpu_models})" if shape.gpu_models else ""))
    return ", ".join([*parts, *(f"{amount} {name}" for name, amount in shape.extended)])
