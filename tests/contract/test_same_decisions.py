"""The compiled episode and a policy called pod by pod come to the same node and the same devices, every time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pilotage.kernels.scene import FINISHED, REFUSED, WAITS
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration
from pilotage.model.workload import Gang, PodShape, Workload
from pilotage.policies.api import Policy, compiled_rules
from pilotage.policies.architectures import Architecture
from pilotage.policies.heuristics import HEURISTICS
from pilotage.policies.learned import policy_of
from pilotage.policies.registry import find_policy, registered
from pilotage.policies.weighted import WeightedSum
from pilotage.sim.protocols import Timing, openb_run, run_timed, timed_run
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.generate import Mix, Times, openb_like_nodes, openb_like_pods
from pilotage.workloads.topology import labelled
from pilotage.workloads.trace import Trace
from reference.random_weights import GRAPH, MLP, PRICES, random_checkpoint
from reference.uncompiled import Uncompiled

SUMS = (
    "2*fgd+best-fit",  # normalised over the candidates
    "best-fit+gpu-packing+0.5*least-allocated",
    "fgd+0.001*most-allocated",  # node by node
    "2*gpu-clustering+fgd",  # the heaviest part leaves the device to the rule
    "0.1*random+dot-product",
    "random+fgd",  # equal weights: the first is the heaviest
    "fgd+0.2*gang-locality",  # scored anew for each pod of a gang
    "best-fit+2*gang-spread",
)
GANG_TEXTS = ("gang-locality", "gang-spread", *(text for text in SUMS if "gang" in text))
SHIPPED = tuple(
    name
    for name in registered()
    if name not in {policy.name for policy in HEURISTICS} and compiled_rules(find_policy(name)) is not None
)
PRICED, PRICED_SUM = "random prices", "random prices in a sum"
TEXTS = (*(policy.name for policy in HEURISTICS), *SHIPPED, *SUMS, PRICED, PRICED_SUM)
SCALE, PODS = 0.05, 400


@cache
def small_openb() -> Trace:
    """About 60 nodes and 400 pods; a third of the GPU pods name models."""
    pods = openb_like_pods(PODS, seed=3, mix=Mix(model_named=0.3), times=Times(nodes_scale=SCALE))
    return Trace.of("small", openb_like_nodes(SCALE), pods)


@cache
def busy() -> Trace:
    """The same cluster with taints and labels, pods that come fast, some with constraints, priority or in gangs."""
    nodes = tuple(
        replace(
            node,
            labels=(*node.labels, ("pool", "a" if n % 3 else "b")),
            taints=(Taint("keep", "out"),) if n % 7 == 0 else (),
        )
        for n, node in enumerate(labelled(openb_like_nodes(SCALE), racks_per_zone=3))
    )
    pods = openb_like_pods(PODS, seed=5, times=Times(nodes_scale=SCALE, load=3.0))
    in_pool_b = Constraints(terms=((Requirement("pool", "In", ("b",)),),))
    anywhere = Constraints(tolerations=(Toleration(operator="Exists"),))
    shapes: tuple[PodShape, ...] = (
        *pods.shapes,
        *(replace(shape, constraints=in_pool_b, priority=5) for shape in pods.shapes),
        *(replace(shape, constraints=anywhere) for shape in pods.shapes),
    )
    variant_P = np.arange(PODS) % 3
    gang_P = np.where(np.arange(PODS) % 40 < 3, np.arange(PODS) // 40, -1)
    workload = Workload(
        names=pods.names,
        shapes=shapes,
        shape_P=pods.shape_P + variant_P * len(pods.shapes),
        arrival_P=pods.arrival_P,
        duration_P=pods.duration_P,
        gangs=tuple(Gang(f"gang-{g}", 3) for g in range(PODS // 40)),
        gang_P=gang_P,
        timed=True,
    )
    return Trace.of("busy", nodes, workload)


def policy_called(text: str) -> Policy:
    if text not in (PRICED, PRICED_SUM):
        return find_policy(text)
    learned = policy_of(random_checkpoint(PRICES))
    return learned if text == PRICED else WeightedSum((learned, find_policy("best-fit")), (1.0, 0.01))


def assert_same(compiled: Run, called: Run) -> None:
    assert compiled.rules is not None
    assert called.rules is None
    for run in (compiled, called):
        assert run.advance() == -1
    ours, theirs = compiled.scene.progress, called.scene.progress
    for column in ("node_P", "devices_P", "state_P", "placed_at_P", "ended_at_P", "restarts_P", "counter_X"):
        np.testing.assert_array_equal(getattr(ours, column), getattr(theirs, column), column)
    np.testing.assert_array_equal(compiled.scene.meters.total_M, called.scene.meters.total_M)
    np.testing.assert_array_equal(compiled.tape.reason_P, called.tape.reason_P)


@pytest.mark.parametrize("text", TEXTS)
def test_arrivals_only(text: str) -> None:
    policy = policy_called(text)
    compiled, called = (openb_run(small_openb(), p, 7, 1.3, reasons=True) for p in (policy, Uncompiled(policy)))
    assert_same(compiled, called)
    np.testing.assert_array_equal(compiled.tape.meter_PM, called.tape.meter_PM)
    refused = compiled.scene.progress.state_P == REFUSED
    assert 0 < refused.sum() < len(compiled.workload)  # the comparison saw both outcomes


@pytest.mark.parametrize("text", TEXTS)
def test_departures_and_failures(text: str) -> None:
    policy = policy_called(text)
    timing = Timing(mtbf_hours=1.0, mttr_hours=0.2)
    compiled, called = (timed_run(busy(), p, 11, timing, reasons=True) for p in (policy, Uncompiled(policy)))
    assert_same(compiled, called)
    np.testing.assert_array_equal(compiled.scene.series.sample_GM, called.scene.series.sample_GM)
    progress = compiled.scene.progress
    assert progress.restarts_P.sum() > 0
    assert (progress.state_P == FINISHED).sum() > PODS / 2
    assert compiled.decisions > PODS  # some pods were tried again


@pytest.mark.parametrize("text", GANG_TEXTS)
def test_gangs_whose_pods_are_placed_one_by_one(text: str) -> None:
    policy = policy_called(text)
    compiled, called = (openb_run(busy(), p, 7, 1.3) for p in (policy, Uncompiled(policy)))
    assert_same(compiled, called)
    indifferent = openb_run(busy(), find_policy("first-fit"), 7, 1.3)
    indifferent.advance()
    assert (compiled.scene.progress.node_P != indifferent.scene.progress.node_P).any()


@pytest.mark.parametrize("architecture", [MLP, GRAPH], ids=["mlp", "graph"])
def test_networks_decide_the_same_whether_called_alone_or_as_a_part(architecture: Architecture) -> None:
    """No part of the compiled episode: what is compared is the policy alone, in a sum, and without its declarations."""
    policy = policy_of(random_checkpoint(architecture))
    timing = Timing(mtbf_hours=1.0, mttr_hours=0.2)
    alone, in_sum, bare = (
        timed_run(busy(), p, 11, timing) for p in (policy, WeightedSum((policy,), (1.0,)), Uncompiled(policy))
    )
    for run in (alone, in_sum, bare):
        assert run.rules is None
        assert run.advance() == -1
    for other in (in_sum, bare):
        for column in ("node_P", "devices_P", "state_P", "placed_at_P", "ended_at_P"):
            np.testing.assert_array_equal(
                getattr(alone.scene.progress, column), getattr(other.scene.progress, column), column
            )
    assert (alone.scene.progress.state_P == FINISHED).sum() > PODS / 2


def test_results_are_the_same_numbers() -> None:
    policy, timing = find_policy("fgd"), Timing(load=1.2, arrivals=200, mtbf_hours=20.0)
    assert run_timed(small_openb(), policy, 3, timing) == run_timed(small_openb(), Uncompiled(policy), 3, timing)


@pytest.mark.parametrize("text", ["fgd", "2*fgd+best-fit", "random"])
def test_a_run_stopped_on_the_way_goes_on_to_the_same_end(text: str) -> None:
    policy = find_policy(text)
    through = openb_run(small_openb(), policy, 7, 1.3)
    through.advance()
    for kind in (policy, Uncompiled(policy)):
        halting = openb_run(small_openb(), kind, 7, 1.3)
        assert halting.advance(stop_at=100) == 100
        node, devices = halting.interpreter.decision(100)
        assert (node, devices) == (through.scene.progress.node_P[100], through.scene.progress.devices_P[100])


def test_waiting_pods_wait_on_both_ways() -> None:
    """A cluster that fails for good: nothing can run, nobody is lost."""
    nodes = [Node("a", 4000, 2**30), Node("b", 4000, 2**30)]
    workload = replace(openb_like_pods(20, times=Times(horizon=100.0)), shapes=(PodShape(1000, 1),))
    workload = replace(workload, shape_P=np.zeros(20, np.int64), duration_P=np.full(20, 1e6))
    events = (NodeEvent(50.0, "a", up=False), NodeEvent(60.0, "b", up=False))
    settings = RunSettings(retry=True, node_events=events, measure=(0.0, 100.0), samples=3)
    policy = find_policy("least-allocated")
    compiled, called = (Run(nodes, workload, p, settings) for p in (policy, Uncompiled(policy)))
    assert_same(compiled, called)
    assert (compiled.scene.progress.state_P == WAITS).all()
