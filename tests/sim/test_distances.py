"""Distance of gangs: pair by pair, None where it means nothing, and smaller with the term that is made for it."""

from __future__ import annotations

from itertools import combinations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.distances import gang_distance
from pilotage.sim.protocols import Timing, run_openb, run_timed
from pilotage.sim.results import RunResult
from pilotage.sim.run import Run, RunSettings
from pilotage.workloads.generate import shipped
from pilotage.workloads.topology import labelled
from pilotage.workloads.trace import Trace
from reference.machines import distance
from reference.strategies import checked, gang_lists, node_lists


def by_pairs(run: Run, *, whole: bool) -> float | None:
    """The definition, pair by pair."""
    nodes, pods, node_P = run.state.nodes, list(run.workload), run.scene.progress.node_P
    means = []
    for gang in run.workload.gangs:
        members = [p for p, pod in enumerate(pods) if pod.gang == gang]
        placed = [nodes[node_P[p]] for p in members if node_P[p] >= 0]
        if len(placed) >= 2 and (len(placed) == len(members) or not whole):
            means.append(mean(distance(a, b) for a, b in combinations(placed, 2)))
    return mean(means) if means and any(node.zone or node.rack for node in nodes) else None


@given(node_lists(), st.integers(1, 20).flatmap(gang_lists), st.booleans(), st.data())
@checked(200)
def test_distance_is_the_mean_over_pairs_and_gangs(
    nodes: list[Node], gangs: list[Gang | None], whole: bool, data: st.DataObject
) -> None:
    workload = Workload.of(Pod(f"p{i}", PodShape(), gang=gang) for i, gang in enumerate(gangs))
    run = Run(nodes, workload, find_policy("first-fit"), RunSettings(retry=whole))
    places = st.sampled_from([-1, *range(len(nodes)), *range(len(nodes)), *range(len(nodes))])
    run.scene.progress.node_P[:] = data.draw(st.lists(places, min_size=len(gangs), max_size=len(gangs)))
    expected = by_pairs(run, whole=whole)
    assert gang_distance(run) == (None if expected is None else pytest.approx(expected, abs=1e-12))


def test_no_distance_without_gangs_or_without_places() -> None:
    nodes = [Node(f"n{i}", 1000, 1) for i in range(4)]
    pair = [Pod(f"p{i}", PodShape(1000), gang=Gang("pair", 2)) for i in range(2)]
    alone = [Pod("p", PodShape(1000))]
    for cluster, pods, expected in (
        (nodes, pair, None),
        (labelled(nodes), alone, None),
        (labelled(nodes), pair, 1.0),
        (labelled(nodes, 1, 4), pair, 2.0),
        (labelled(nodes, 1, 1), pair, 3.0),
    ):
        run = Run(cluster, Workload.of(pods), find_policy("first-fit"), RunSettings())
        run.advance()
        assert gang_distance(run) == expected


TRACES = [Trace.of("gangs", *shipped("openb-like-gangs", seed, pods=4000)) for seed in range(2)]


@pytest.mark.parametrize(("policy", "weight"), [("fgd", 0.2), ("best-fit", 2.0)])
@pytest.mark.parametrize("protocol", ["timed", "openb"])
def test_gangs_are_nearer_with_the_locality_term_and_further_with_spread(
    policy: str, weight: float, protocol: str
) -> None:
    def mean_distance(text: str) -> float:
        found = [run(trace, text, protocol).gang_distance for trace in TRACES]
        return mean(value for value in found if value is not None)

    alone = mean_distance(policy)
    assert mean_distance(f"{policy}+{weight}*gang-locality") < 0.75 * alone
    assert mean_distance(f"{policy}+{weight}*gang-spread") > alone


def run(trace: Trace, text: str, protocol: str) -> RunResult:
    policy = find_policy(text)
    return run_timed(trace, policy, 0, Timing()) if protocol == "timed" else run_openb(trace, policy, 42, 1.3)
