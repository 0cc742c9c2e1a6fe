"""The graph that attention works on."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pilotage.policies.cluster_graph import LEVELS, ClusterGraph, cluster_graph
from reference import cluster_graph as twin
from reference.strategies import checked

places = st.integers(-1, 3)


@given(st.data(), st.integers(0, 3), st.integers(0, 6))
@checked(150)
def test_edges_are_those_of_the_twin(data: st.DataObject, clusters: int, nodes: int) -> None:
    def table(values: st.SearchStrategy[int]) -> list[list[int]]:
        row = st.lists(values, min_size=nodes, max_size=nodes)
        return data.draw(st.lists(row, min_size=clusters, max_size=clusters))

    mask, rack, zone = table(st.integers(0, 1)), table(places), table(places)
    shape = (clusters, nodes)
    mask_BN = np.array(mask, np.bool_).reshape(shape)
    graph = cluster_graph(mask_BN, np.array(rack, np.int64).reshape(shape), np.array(zone, np.int64).reshape(shape))
    names = named(graph, mask_BN, rack, zone)
    found = [(names[s], names[t]) for s, t in zip(graph.source_E.tolist(), graph.target_E.tolist(), strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == twin.edges([[bool(m) for m in row] for row in mask], rack, zone)


def named(
    graph: ClusterGraph, mask_BN: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], rack: object, zone: object
) -> list[twin.Vertex]:
    """Vertices by the names of the twin, found through the workers below them."""
    workers = np.argwhere(mask_BN).tolist()
    rack_BN, zone_BN = np.array(rack, np.int64), np.array(zone, np.int64)
    above: dict[int, twin.Vertex] = {}
    for w, (b, n) in enumerate(workers):
        way = twin.path(b, n, int(rack_BN[b, n]), int(zone_BN[b, n]))
        for level in range(len(LEVELS)):
            vertex = int(graph.above_LW[level, w])
            assert above.setdefault(vertex, way[level + 1]) == way[level + 1]
            assert graph.level_U[vertex] == level
    clusters = np.flatnonzero(graph.level_U == LEVELS.index("cluster"))
    above |= {int(u): ("cluster", b) for b, u in enumerate(clusters)}  # also those without workers
    assert sorted(above) == list(range(len(graph.level_U)))
    return [*(("worker", b, n) for b, n in workers), *(above[u] for u in range(len(graph.level_U)))]


def test_edges_grow_with_the_nodes_and_not_with_their_square() -> None:
    def edges(nodes: int) -> int:
        rack_BN, zone_BN = np.arange(nodes)[None] // 20, np.arange(nodes)[None] // 200
        return len(cluster_graph(np.ones((1, nodes), np.bool_), rack_BN, zone_BN).source_E)

    counts = [edges(nodes) for nodes in (1000, 2000, 4000, 8000)]
    assert counts[3] - counts[2] == 2 * (counts[2] - counts[1]) == 4 * (counts[1] - counts[0])
    assert counts[3] < 4 * 8000


def test_a_cluster_without_labels_is_one_zone_with_one_rack() -> None:
    nowhere_BN = np.full((1, 5), -1)
    graph = cluster_graph(np.ones((1, 5), np.bool_), nowhere_BN, nowhere_BN)
    assert graph.level_U.tolist() == [0, 1, 2]
    assert graph.members_U.tolist() == [5, 5, 5]
