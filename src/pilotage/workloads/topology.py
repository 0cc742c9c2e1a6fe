"""Where nodes stand: labels for zone, rack and server, made from names alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
RACK_LABEL: Final = "topology.kubernetes.io/rack"
SERVER_LABEL: Final = "topology.kubernetes.io/server"
SERVERS_PER_RACK: Final = 4
RACKS_PER_ZONE: Final = 16

_NUMBER = re.compile(r"([0-9]+)")


def labelled(
    nodes: Sequence[Node], servers_per_rack: int = SERVERS_PER_RACK, racks_per_zone: int = RACKS_PER_ZONE
) -> tuple[Node, ...]:
    """The nodes in their order, with labels by which racks and zones are filled one after the other.

    Servers stand in the natural order of their names (node-9 before node-10). Labels depend on the names and the two
    numbers alone: those that a node already has under the three keys are replaced, so labelling twice is labelling
    once. Other labels are kept.
    """
    for name, number in (("servers_per_rack", servers_per_rack), ("racks_per_zone", racks_per_zone)):
        if number < 1:
            raise InputError(f"bad value {number}", field=name, expected="1 or more")
    place = {name: number for number, name in enumerate(sorted((node.name for node in nodes), key=natural_order))}
    result = []
    for node in nodes:
        rack, server = divmod(place[node.name], servers_per_rack)
        own = {
            ZONE_LABEL: f"zone-{rack // racks_per_zone}",
            RACK_LABEL: f"rack-{rack}",
            SERVER_LABEL: f"server-{server}",
        }
        result.append(replace(node, labels=tuple(sorted((dict(node.labels) | own).items()))))
    return tuple(result)


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A key by which numbers in names count as numbers; equal ones (n-1, n-01) are in the order of text."""
    parts = _NUMBER.split(name)
    return [int(part) if odd % 2 else part for odd, part in enumerate(parts)], name
