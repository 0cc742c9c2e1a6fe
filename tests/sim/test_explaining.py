"""A decision explained is the decision that is made."""

from __future__ import annotations

import pytest

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.explaining import explain_pod
from pilotage.sim.protocols import openb_run
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.trace import Trace

TRACE = Trace.of("small", openb_like_nodes(0.02), openb_like_pods(150))


@pytest.mark.parametrize("text", ["fgd", "random", "best-fit", "gpu-packing+2*fgd", "round-robin"])
def test_node_and_devices_are_those_of_the_run(text: str) -> None:
    whole = openb_run(TRACE, find_policy(text), 3, 1.3)
    whole.advance()
    progress = whole.scene.progress
    for pod in (0, 50, 110, len(whole.workload) - 1):
        found = explain_pod(openb_run(TRACE, find_policy(text), 3, 1.3), whole.workload.names[pod])
        node = int(progress.node_P[pod])
        assert found.node == (whole.state.nodes[node].name if node >= 0 else None)
        assert sum(1 << d for d in found.devices) == progress.devices_P[pod]
        assert len(found.candidates) + sum(found.filtered.values()) == len(TRACE.nodes)
        if found.node is not None:
            assert found.candidates[0].node == found.node


def test_an_unknown_pod_comes_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'pod-00001"):
        explain_pod(openb_run(TRACE, find_policy("fgd"), 3, 0.0), "pod-00001")


def test_a_pod_that_never_came_up_is_said_to_be_so() -> None:
    full = PodShape(4000, 1)
    workload = Workload.of((Pod(f"p{i}", full, arrival=float(i)) for i in range(3)), timed=True)
    run = Run([Node("n", 4000, 100)], workload, find_policy("fgd"), RunSettings(retry=True))
    with pytest.raises(InputError, match="'p2' never came up"):
        explain_pod(run, "p2")


def test_a_node_that_is_down_is_told() -> None:
    workload = Workload.of(
        (Pod(f"p{i}", PodShape(1000, 1), arrival=float(i), duration=9.0) for i in range(3)), timed=True
    )
    settings = RunSettings(retry=True, node_events=(NodeEvent(0.5, "a", up=False),))
    run = Run([Node("a", 4000, 100), Node("b", 4000, 100)], workload, find_policy("first-fit"), settings)
    found = explain_pod(run, "p2")
    assert found.filtered == {"node is down": 1}
    assert (found.node, found.time) == ("b", 2.0)
    assert found.verdict == "b is the only candidate, so its score does not matter"
