"""Which pods are where."""

from __future__ import annotations

from kube.objects import a_pod
from pilotage.kube.neighbours import Neighbourhood
from pilotage.kube.podview import read_pod


def test_nothing_is_left_of_pods_that_went() -> None:
    """Every node that ever had a pod with a hostPort was looked at for each pod that asks for one."""
    neighbours = Neighbourhood()
    pods = [read_pod(a_pod(name, ports=[{"hostPort": 80}])) for name in ("a", "b")]
    for pod in pods:
        neighbours.add(pod, "n0")
    neighbours.remove("uid-a")
    assert list(neighbours.ports["n0"]) == ["uid-b"]
    neighbours.remove("uid-b")
    assert neighbours == Neighbourhood()
