"""A trial leaves out what a run measures on the way; what it is judged by is that of the run."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.kernels.choosing import alike
from pilotage.kernels.features import RANK
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import PodShape
from pilotage.policies.api import Policy
from pilotage.policies.encode import encode_nodes
from pilotage.policies.registry import find_policy
from pilotage.policies.rehearsed import Rehearsed
from pilotage.sim.protocols import openb_run
from pilotage.sim.specs import TraceSource
from pilotage.training.trials import figures_of

OWN_POLICY = "examples/02_own_policy.py:TightestCpu"
TRACE = TraceSource(name="varied-10004").load()
SEED, LOAD, FORCED_LOAD = 1003, 1.3, 0.9


def a_valuation() -> Policy:
    policy = find_policy("pilotage-pack")
    assert isinstance(policy, Rehearsed)
    return policy.valuations[3]


@pytest.mark.parametrize(
    "policy", [find_policy("fgd"), find_policy("random"), a_valuation()], ids=lambda p: str(p.name)
)
def test_figures_are_those_of_a_run_by_the_protocol(policy: Policy) -> None:
    run = openb_run(TRACE, policy, SEED, LOAD)
    run.advance()
    arrays, node_P = run.state.arrays, run.scene.progress.node_P
    used_NR = 1 - arrays.free_NR[:, :2] / arrays.capacity_NR[:, :2]
    gpu_P = np.array([shape.total_gpu_milli for shape in run.workload.shapes])[run.workload.shape_P]
    found = figures_of(TRACE, policy, SEED, LOAD, FORCED_LOAD)
    assert found.failed == (node_P < 0).sum() > 0
    assert found.allocation == pytest.approx(100 * gpu_P[node_P >= 0].sum() / run.state.gpu_capacity_milli)
    assert (found.cpu_variance, found.memory_variance) == (used_NR[:, 0].var(), used_NR[:, 1].var())


def test_a_policy_in_plain_python_cannot_be_tried() -> None:
    with pytest.raises(InputError, match="tightest-cpu@1 is not compiled"):
        figures_of(TRACE, find_policy(OWN_POLICY), SEED, LOAD, FORCED_LOAD)


def test_nodes_are_alike_where_nothing_that_counts_differs() -> None:
    small, large = Node("small", 4_000, 2**30, gpu_count=2), Node("large", 8_000, 2**30, gpu_count=2)
    nodes = [small, large, Node("other-name", 4_000, 2**30, gpu_count=2), Node("used", 4_000, 2**30, gpu_count=2)]
    state = ClusterState(nodes)
    state.add("pod", PodShape(cpu_milli=1_000), 3, 0)
    node_NF = encode_nodes(state, np.arange(4))
    assert alike(state.arrays, node_NF).tolist() == [0, 1, 0, 2]
    state.arrays.alive_N[2] = False
    assert alike(state.arrays, node_NF).tolist() == [0, 1, 2, 3]
    assert node_NF[:, RANK].tolist() == [0, 1, 2, 3]  # only looked at
