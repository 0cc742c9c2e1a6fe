"""The cluster graph by names instead of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

Vertex = tuple[object, ...]


def edges(mask: Sequence[Sequence[bool]], rack: Sequence[Sequence[int]], zone: Sequence[Sequence[int]]) -> set[Vertex]:
    """(from, to): both ways between worker, rack, zone and cluster, and each vertex with itself."""
    found: set[Vertex] = set()
    for b, nodes in enumerate(mask):
        found.add((("cluster", b), ("cluster", b)))
        for n, there in enumerate(nodes):
            if there:
                way = path(b, n, rack[b][n], zone[b][n])
                found |= {(vertex, vertex) for vertex in way}
                found |= {pair for low, high in itertools.pairwise(way) for pair in ((low, high), (high, low))}
    return found


def path(b: int, n: int, rack: int, zone: int) -> list[Vertex]:
    """From a worker to its cluster."""
    return [("worker", b, n), ("rack", b, zone, rack), ("zone", b, zone), ("cluster", b)]
