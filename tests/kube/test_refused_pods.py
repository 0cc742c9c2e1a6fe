"""Pods that their kubelet refused are told once, those that failed otherwise never."""

from __future__ import annotations

from kube.objects import a_pod
from pilotage.kube.client import Json
from pilotage.kube.refused_pods import RefusedPods
from pilotage.kube.watch import PageFollower


def failed(name: str, reason: str) -> Json:
    found = a_pod(name, node="n0", phase="Failed")
    found["status"]["reason"] = reason
    return found


def test_a_kubelets_refusal_is_told_once() -> None:
    told: list[str] = []
    pods = RefusedPods(lambda pod, why: told.append(f"{pod} {why}"))
    assert isinstance(pods, PageFollower)
    pods.listed([failed("before", "OutOfcpu"), failed("evicted", "Evicted")])
    for name, reason in (("before", "OutOfcpu"), ("a", "OutOfpods"), ("a", "OutOfpods"), ("b", "Evicted")):
        pods.changed(failed(name, reason))
    pods.changed(a_pod("c", node="n0", phase="Failed"))
    assert told == ["default/a OutOfpods"]


def test_nothing_is_kept_of_pods_that_are_gone_or_failed_otherwise() -> None:
    pods = RefusedPods(lambda pod, why: None)
    pods.listed([failed(f"p{number}", "Evicted") for number in range(5)])
    pods.changed(failed("a", "OutOfcpu"))
    pods.deleted(failed("a", "OutOfcpu"))
    pods.deleted(failed("unknown", "OutOfcpu"))
    assert not pods._known
