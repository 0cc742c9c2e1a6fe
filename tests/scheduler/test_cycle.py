"""One decision: on nodes that others have filled beyond their size, and by policies that fail."""

from __future__ import annotations

from typing import Any

import pytest

from kube.objects import a_node, a_pod
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Json
from pilotage.model.cluster import Node
from pilotage.model.outcome import Failed, Scheduled, Unschedulable
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.api import FeatureSchema, Policy
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle
from pilotage.scheduler.timing import decision_seconds, p99


def a_cycle(policy: Policy, *pods: Json) -> Cycle:
    cache = ClusterCache()
    NodeFollower(cache).listed([a_node("n0", cpu="2")])
    cache.refresh()
    PodFollower(cache).listed(list(pods))
    return Cycle(cache, {"pilotage": policy})


def test_a_pod_that_asks_for_no_cpu_goes_to_a_node_that_others_have_filled_twice() -> None:
    full = [a_pod(name, node="n0", requests={"cpu": "2"}) for name in ("a", "b")]
    cycle = a_cycle(find_policy("fgd"), *full, a_pod("small", requests={"memory": "1Gi"}), a_pod("usual"))
    assert cycle.cache.state.arrays.free_NR[0, 0] == -2000
    assert cycle.attempt(cycle.cache.pods["uid-small"]) == Scheduled("n0")
    assert isinstance(cycle.attempt(cycle.cache.pods["uid-usual"]), Unschedulable)


class Fails:
    """A policy that somebody wrote, with a fault in it for a while."""

    name = "fails@1"
    features = FeatureSchema(pod=("cpu",), node=("cpu_free",))
    normalise = "none"
    in_score: Exception | None = None
    elsewhere: Exception | None = None

    @property
    def scope(self) -> str:
        if self.elsewhere is not None:
            raise self.elsewhere
        return "node"

    def score(self, batch: Any, out_BN: Any, device_BN: Any) -> None:
        if self.in_score is not None:
            raise self.in_score
        out_BN[:] = 1.0


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("in_score", "fails@1: score fails: ZeroDivisionError: by nothing"),
        ("elsewhere", "ZeroDivisionError: by nothing (test_cycle.py, line "),
    ],
)
def test_a_policy_that_fails_costs_its_pod_and_nothing_else(where: str, said: str) -> None:
    policy = Fails()
    cycle = a_cycle(policy, a_pod("a"))  # type: ignore[arg-type]
    pod = cycle.cache.pods["uid-a"]
    setattr(policy, where, ZeroDivisionError("by nothing"))
    outcome = cycle.attempt(pod)
    assert isinstance(outcome, Failed)
    assert said in outcome.why
    assert cycle.cache.state.placement(pod.uid) is None
    setattr(policy, where, None)  # what it did not say then is asked for again
    assert cycle.attempt(pod) == Scheduled("n0")


@pytest.mark.parametrize(
    ("model", "said"),
    [(None, "1 node(s) had no GPU"), ("T4", "1 node(s) didn't have a GPU of the requested model")],
)
def test_a_node_without_gpu_lacks_a_model_only_where_one_was_asked_for(model: str | None, said: str) -> None:
    shares = {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-count": "1"}
    asked = a_pod("gpu", annotations=shares | ({"alibabacloud.com/gpu-card-model": model} if model else {}))
    cycle = a_cycle(find_policy("best-fit"), asked)
    outcome = cycle.attempt(cycle.cache.pods["uid-gpu"])
    assert isinstance(outcome, Unschedulable)
    assert said in outcome.message


def test_decisions_are_timed_on_a_cluster_that_stands_still() -> None:
    shape = PodShape(cpu_milli=1000, memory_bytes=2**30)
    workload = Workload.of(Pod(f"p{i}", shape) for i in range(5))
    seconds = decision_seconds([Node("n0", 4000, 2**33)], [shape, shape], workload, find_policy("best-fit"))
    assert len(seconds) == 5
    assert all(0 < one < 60 for one in seconds)
    assert p99(seconds) == sorted(seconds)[3]
    assert p99([]) == 0.0
