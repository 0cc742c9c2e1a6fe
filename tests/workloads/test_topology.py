"""Labels from names and numbers alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.workloads.topology import RACK_LABEL, SERVER_LABEL, ZONE_LABEL, labelled, natural_order

names = st.lists(st.text("ab-0123456789", min_size=1, max_size=6), min_size=1, max_size=40, unique=True)


def stand(node: Node) -> tuple[str, str, str]:
    labels = dict(node.labels)
    return labels[ZONE_LABEL], labels[RACK_LABEL], labels[SERVER_LABEL]


def test_racks_and_zones_are_filled_in_the_natural_order_of_names() -> None:
    nodes = [Node(f"node-{i}", 1, 1) for i in (10, 9, 1, 100, 2)]
    found = {node.name: stand(node) for node in labelled(nodes, servers_per_rack=2, racks_per_zone=2)}
    assert found == {
        "node-1": ("zone-0", "rack-0", "server-0"),
        "node-2": ("zone-0", "rack-0", "server-1"),
        "node-9": ("zone-0", "rack-1", "server-0"),
        "node-10": ("zone-0", "rack-1", "server-1"),
        "node-100": ("zone-1", "rack-2", "server-0"),
    }


def test_other_labels_and_the_order_of_nodes_are_kept() -> None:
    nodes = [
        Node("b", 1, 1, labels=(("app", "x"), (ZONE_LABEL, "old"), (RACK_LABEL, "old"))),
        Node("a", 2, 2, gpu_count=1, labels=(("z", ""),)),
    ]
    one, other = labelled(nodes)
    assert (one.name, other.name) == ("b", "a")
    assert dict(one.labels) == {"app": "x", ZONE_LABEL: "zone-0", RACK_LABEL: "rack-0", SERVER_LABEL: "server-1"}
    assert replace(other, labels=nodes[1].labels) == nodes[1]
    assert ("z", "") in other.labels


@given(names, st.integers(1, 5), st.integers(1, 5), st.randoms())
def test_labelling_twice_is_labelling_once_in_any_order(
    names: list[str], servers: int, racks: int, random: Random
) -> None:
    nodes = [Node(name, 1, 1) for name in names]
    once = labelled(nodes, servers, racks)
    assert labelled(labelled(once, servers + 1, racks), servers, racks) == once
    turned = random.sample(nodes, len(nodes))
    assert {node.name: node for node in labelled(turned, servers, racks)} == {node.name: node for node in once}
    assert len({stand(node)[1:] for node in once}) == len(nodes)
    assert len({node.rack for node in once}) == -(-len(nodes) // servers)
    assert len({node.zone for node in once}) == -(-len(nodes) // (servers * racks))


@given(names)
def test_natural_order_has_no_ties(names: list[str]) -> None:
    keys = [natural_order(name) for name in names]
    assert len(sorted(keys)) == len({repr(key) for key in keys})


@pytest.mark.parametrize(("servers", "racks", "field"), [(0, 1, "servers_per_rack"), (1, -1, "racks_per_zone")])
def test_racks_hold_at_least_one(servers: int, racks: int, field: str) -> None:
    with pytest.raises(InputError, match=f"{field}: bad value"):
        labelled([Node("a", 1, 1)], servers, racks)
