"""When policies are prepared again: the machines, the number or the make-up of the pods has changed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kube.objects import a_pod
from pilotage.kube.cache import ClusterCache
from pilotage.kube.mixture import FEWEST_ARRIVALS, Mixture
from pilotage.kube.podview import read_pod
from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape
from pilotage.policies.api import WorkloadMix

SMALL, LARGE = {"cpu": "100m"}, {"cpu": "3"}


def watched(pods: int) -> Mixture:
    cache = ClusterCache()
    cache.set_nodes([Node("n0", 8_000_000, 2**44, 100_000)])
    come(cache, range(pods), SMALL)
    mixture = Mixture(cache)
    mixture.take()
    assert mixture.moved() is False
    return mixture


def come(cache: ClusterCache, numbers: Iterable[int], requests: dict[str, str]) -> None:
    for number in numbers:
        cache.take(read_pod(a_pod(f"p{number}", requests=requests)))


def go(cache: ClusterCache, numbers: Iterable[int]) -> None:
    for number in numbers:
        cache.drop(f"uid-p{number}")


def test_twice_as_many_pods_are_another_mix() -> None:
    mixture = watched(FEWEST_ARRIVALS)
    come(mixture.cache, range(1000, 1000 + FEWEST_ARRIVALS), SMALL)
    assert not mixture.moved()
    come(mixture.cache, [5000], SMALL)
    assert mixture.moved()


def test_other_pods_are_another_mix_even_if_they_are_as_many() -> None:
    mixture = watched(FEWEST_ARRIVALS)
    for number in range(FEWEST_ARRIVALS):
        assert not mixture.moved()
        go(mixture.cache, [number])
        come(mixture.cache, [1000 + number], LARGE)
    assert mixture.moved()
    mixture.take()
    assert not mixture.moved()


def test_the_same_kind_of_pods_is_the_same_mix_however_many_come_and_go() -> None:
    mixture = watched(FEWEST_ARRIVALS)
    for number in range(3 * FEWEST_ARRIVALS):
        go(mixture.cache, [number])
        come(mixture.cache, [FEWEST_ARRIVALS + number], SMALL)
        assert not mixture.moved()


def test_a_mix_that_was_given_does_not_follow_the_pods() -> None:
    mixture = watched(FEWEST_ARRIVALS)
    mixture.given = WorkloadMix((PodShape(1000),), np.ones(1, np.int64))
    come(mixture.cache, range(1000, 3000), LARGE)
    assert not mixture.moved()
