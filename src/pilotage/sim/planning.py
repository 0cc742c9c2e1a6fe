"""Capacity planning: the smallest number of further nodes with which every pod of an arrival order gets a place.

A policy may place everything with five more nodes and not with six, so no search by halves is right: numbers are tried
one after the other, upwards from a number below which the resources alone do not suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.scene import REFUSED
from pilotage.kernels.scoring import RANDOM_NODE
from pilotage.model.cluster import Node
from pilotage.model.workload import GPU_MILLI, BoolArray, IntArray, Workload
from pilotage.policies.api import Policy, WorkloadMix
from pilotage.policies.explain import request_text
from pilotage.sim.protocols import arrival_of, mix_of
from pilotage.sim.run import Placed, Run, RunSettings
from pilotage.workloads.node_template import copies
from pilotage.workloads.trace import Trace

MOST_NODES = 10_000
CHUNK = 1024  # pods between two looks at whether one was refused


@dataclass(frozen=True)
class Plan:
    """The answer for one policy and one order of arrival."""

    policy: str
    seed: int
    added: int | None  # nodes; None = no number of them will do, or more than were tried
    lower_bound: int  # what resources alone ask for, whatever the policy
    tried: int  # runs
    reason: str = ""  # why there is no answer


@dataclass(frozen=True)
class Arrivals:
    """Pods in order of arrival and the cluster they come to; neither changes when nodes are added."""

    nodes: Sequence[Node]
    workload: Workload
    rank_N: IntArray  # of each node in the order that breaks ties; added nodes come last
    mix: WorkloadMix | None = None
    seed: int = 0
    placed: Sequence[Placed] = ()

    def run(self, policy: Policy, template: Node, count: int) -> Run:
        """A run, not yet carried out, with `count` nodes more."""
        nodes = [*self.nodes, *copies(template, count, self.nodes)]
        rank_N = np.concatenate([self.rank_N, np.arange(len(self.nodes), len(nodes))])
        settings = RunSettings(seed=self.seed, tape=False)
        return Run(nodes, self.workload, policy, settings, rank_N=rank_N, mix=self.mix, placed=self.placed)


def smallest_addition(
    trace: Trace, policy: Policy, seed: int, load: float, template: Node, most: int = MOST_NODES
) -> Plan:
    """For the arrival order of this seed and load on the trace's own cluster."""
    arrival = arrival_of(trace, load, seed)
    return plan(Arrivals(trace.nodes, arrival.workload, arrival.rank_N, mix_of(trace), seed), policy, template, most)


def plan(arrivals: Arrivals, policy: Policy, template: Node, most: int = MOST_NODES) -> Plan:
    """Tries one number of added nodes after the other, from the lower bound to `most`."""
    bound, reason = lower_bound(arrivals.run(policy, template, 1))
    tried = 0
    for count in range(bound, most + 1) if not reason else ():
        run = arrivals.run(policy, template, count)
        pod, tried = first_refused(run), tried + 1
        if pod is None:
            return Plan(policy.name, arrivals.seed, count, bound, tried)
        if _more_would_change_nothing(run, len(arrivals.nodes), pod):
            reason = f"{_named(run, pod)} fits on no added node, and others take the nodes that it fits on"
            break
    return Plan(policy.name, arrivals.seed, None, bound, tried, reason or f"more than {most} nodes would be needed")


def first_refused(run: Run) -> int | None:
    """Carries a run without retries on until a pod is refused."""
    for last in range(CHUNK - 1, len(run.workload) + CHUNK - 1, CHUNK):
        run.advance_to(last)  # without times the clock counts pods
        refused = np.flatnonzero(run.scene.progress.state_P == REFUSED)
        if len(refused):
            return int(refused[0])
    return None


def _more_would_change_nothing(run: Run, nodes: int, pod: int) -> bool:
    """Whether the pod is refused with any further node too: one was empty then, and the policy cannot tell them apart.

    Equal nodes get equal scores and the earlier one wins, so a node that comes after an empty one is never chosen.
    That does not hold where scores depend on a node's place in the order or on the number of nodes.
    """
    features, rules = run.policy.features, run.rules
    if rules is not None:
        tells_apart = RANDOM_NODE in rules.rule_K or features.about_gangs  # racks grow with added nodes
    else:
        tells_apart = run.policy.scope == "cluster" or "rank" in features.node
    added = np.arange(nodes, len(run.state.nodes))
    return not tells_apart and not np.isin(added, run.scene.progress.node_P[:pod]).all()


# What resources alone ask for


def lower_bound(run: Run) -> tuple[int, str]:
    """No fewer nodes can do, by sums over each resource; and why no number of them can, or "".

    The run has not begun, and its last node is the only added one. Pods that fit on added nodes only must go there;
    of the others as many as the old nodes cannot hold, once those pods have their share that fit nowhere else.
    """
    pods_S = np.bincount(run.workload.shape_P, minlength=len(run.workload.shapes))
    used = np.flatnonzero(pods_S).tolist()
    fits_SN = _fits(run)
    old_S, added_S = np.logical_or.reduce(fits_SN[:, :-1], axis=1), fits_SN[:, -1]
    homeless = np.flatnonzero(~(old_S | added_S)[run.workload.shape_P])
    if len(homeless):
        return 0, f"{_named(run, int(homeless[0]))} fits on no empty node, neither of the cluster nor an added one"
    useful = np.flatnonzero(fits_SN[used, :-1].any(axis=0)).tolist()
    bound = 0
    for resource, (asked_S, offered_N) in _resources(run).items():
        total_S = {s: int(pods_S[s]) * asked_S[s] for s in used}
        only_old = sum(total for s, total in total_S.items() if not added_S[s])
        only_added = sum(total for s, total in total_S.items() if not old_S[s])
        left = sum(offered_N[n] for n in useful) - only_old
        if left < 0:
            return bound, f"pods that fit on no added node ask for {-left} {resource} more than the cluster has"
        missing = only_added + max(sum(total_S.values()) - only_old - only_added - left, 0)
        if missing and not offered_N[-1]:
            return bound, f"{missing} {resource} more are needed, and added nodes have none"
        bound = max(bound, -(-missing // offered_N[-1]) if missing else 0)
    return bound, ""


def _fits(run: Run) -> BoolArray:
    """Which shapes fit on which nodes as they are now."""
    scene = run.scene
    every_N = np.arange(len(run.state.nodes))
    fits_SN = np.zeros((len(run.workload.shapes), len(every_N)), np.bool_)
    for s in range(len(fits_SN)):
        feasible_some(scene.cluster, scene.shapes, s, every_N, fits_SN[s])
    return fits_SN


def _resources(run: Run) -> dict[str, tuple[list[int], list[int]]]:
    """What each shape asks for and each node has left, as whole numbers of any size.

    Two requests above half a device never share one, so they are counted in devices as well.
    """
    cluster, shapes = run.scene.cluster, run.scene.shapes
    units = ("milli of CPU", "bytes of memory", "places for pods", *run.state.resources[3:])
    found = {
        unit: (shapes.request_SR[:, r].tolist(), np.maximum(cluster.free_NR[:, r], 0).tolist())
        for r, unit in enumerate(units)
    }
    half = GPU_MILLI // 2
    found["milli of GPU"] = (
        (shapes.gpu_milli_S * shapes.gpu_count_S).tolist(),
        cluster.device_left_ND.sum(axis=1).tolist(),
    )
    found["GPUs with more than half left"] = (
        np.where(shapes.gpu_milli_S > half, shapes.gpu_count_S, 0).tolist(),
        (cluster.device_left_ND > half).sum(axis=1).tolist(),
    )
    return found


def _named(run: Run, pod: int) -> str:
    workload = run.workload
    return f"pod {workload.names[pod]!r} ({request_text(workload.shapes[workload.shape_P[pod]])})"


# Over seeds


@dataclass(frozen=True)
class PlanSummary:
    """The answers for one policy over its seeds. No answer counts as more than any number; None where that shows."""

    policy: str
    seeds: int
    smallest: int | None
    median: float | None
    largest: int | None
    lower_bound: int  # the largest over the seeds
    unanswered: int
    reason: str = ""  # of the first seed without an answer


def summarise(plans: Iterable[Plan]) -> list[PlanSummary]:
    """One line per policy, in the order of the plans."""
    by_policy: dict[str, list[Plan]] = {}
    for one in plans:
        by_policy.setdefault(one.policy, []).append(one)
    return [_summary(policy, own) for policy, own in by_policy.items()]


def _summary(policy: str, plans: Sequence[Plan]) -> PlanSummary:
    never = float("inf")
    counts = [never if plan.added is None else float(plan.added) for plan in plans]
    middle = median(counts)
    return PlanSummary(
        policy=policy,
        seeds=len(plans),
        smallest=int(min(counts)) if min(counts) < never else None,
        median=middle if middle < never else None,
        largest=int(max(counts)) if max(counts) < never else None,
        lower_bound=max(plan.lower_bound for plan in plans),
        unanswered=counts.count(never),
        reason=next((plan.reason for plan in plans if plan.reason), ""),
    )
