"""Nodes that get other labels or taints are taken in where they are: what comes out is what a cache would say that had
never known them otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotage.kube.cache import ClusterCache
from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration
from pilotage.model.workload import PodShape
from pilotage.policies.kept_rows import KeptRows

NODES = [Node(f"n{n}", 8_000, 2**34, gpu_count=n % 3, gpu_model="A" if n % 3 else "") for n in range(6)]
TAINTS = (Taint("gpu", "yes", "NoSchedule"), Taint("old", "", "PreferNoSchedule"), Taint("down", "", "NoExecute"))
RULES = (
    Constraints(),
    Constraints(tolerations=(Toleration("gpu", "Exists"),)),
    Constraints(terms=((Requirement("disk", "In", ("ssd",)),),)),
    Constraints(terms=((Requirement("disk", "DoesNotExist", ()),),), tolerations=(Toleration("", "Exists"),)),
)
SHAPES = [PodShape(1000, 2**30, constraints=rules) for rules in RULES]
SHAPES += [PodShape(1000, 2**30, 500, 1, "A", constraints=RULES[1]), PodShape(1000, 2**30, 1000, 2)]

changes = st.tuples(
    st.integers(0, len(NODES) - 1),
    st.sets(st.sampled_from(TAINTS), max_size=2),
    st.sampled_from([(), (("disk", "ssd"),), (("disk", "hdd"),)]),
)


def eligible(cache: ClusterCache, rows: KeptRows) -> list[list[bool]]:
    return [rows.row("any", shape).view.shapes.eligible_KN[0].tolist() for shape in SHAPES]


@settings(deadline=None)  # the first one loads kernels
@given(st.lists(st.lists(changes, min_size=1, max_size=4), max_size=5))
def test_changed_in_place_is_as_new(steps: list[list[tuple[int, set[Taint], tuple[tuple[str, str], ...]]]]) -> None:
    cache, nodes = ClusterCache(), list(NODES)
    cache.set_nodes(nodes)
    rows = KeptRows(cache)
    for step in steps:
        for n, taints, labels in step:
            nodes[n] = replace(nodes[n], taints=tuple(sorted(taints, key=str)), labels=labels)
            cache.put_node(nodes[n])
        cache.refresh()
        new = ClusterCache()
        new.set_nodes(nodes)
        assert eligible(cache, rows) == eligible(new, KeptRows(new))
        assert cache.soft_taints == new.soft_taints
        for rules in RULES:
            assert (cache.facts.selected(rules) == new.facts.selected(rules)).all()
            assert (cache.facts.tolerated(rules.tolerations) == new.facts.tolerated(rules.tolerations)).all()
            assert (cache.facts.disliked(rules.tolerations) == new.facts.disliked(rules.tolerations)).all()


def test_the_set_of_nodes_stays_and_only_the_changed_one_is_scored_again() -> None:
    cache = ClusterCache()
    cache.set_nodes(NODES)
    epoch, changes, state = cache.epoch, cache.changes, cache.state
    cache.put_node(replace(NODES[2], taints=TAINTS[:1]))
    cache.refresh()
    assert (cache.epoch, cache.changes - changes, cache.redescribed) == (epoch, 1, [2])
    assert cache.state is state
    assert cache.state.nodes[2].taints == TAINTS[:1]


def test_more_than_labels_and_taints_makes_a_new_state() -> None:
    others = (
        replace(NODES[1], cpu_milli=9_000),
        replace(NODES[1], gpu_count=2),
        replace(NODES[1], gpu_model="B"),
        replace(NODES[1], extended=(("example.com/nic", 2),)),
        replace(NODES[1], labels=(("topology.kubernetes.io/zone", "z"),)),
        replace(NODES[1], labels=(("topology.kubernetes.io/rack", "r"),)),
    )
    for other in others:
        cache = ClusterCache()
        cache.set_nodes(NODES)
        epoch = cache.epoch
        cache.put_node(other)
        cache.refresh()
        assert cache.epoch == epoch + 1, other
        new = ClusterCache()
        new.set_nodes([NODES[0], other, *NODES[2:]])
        assert all(np.array_equal(a, b) for a, b in zip(cache.state.arrays, new.state.arrays, strict=True)), other


def test_nodes_that_change_for_ever_do_not_fill_the_memory() -> None:
    cache = ClusterCache()
    cache.set_nodes(NODES)
    for turn in range(100):
        cache.put_node(replace(NODES[0], taints=TAINTS[: 1 + turn % 2]))
        cache.refresh()
    assert len(cache.redescribed) <= len(NODES)
