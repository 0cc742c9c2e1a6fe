"""Where a trace comes from, what it is called, and that its digest depends on its content alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import MIB, Gang, Pod, PodShape, Workload
from pilotage.workloads import openb
from pilotage.workloads.describe import describe
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods, shipped
from pilotage.workloads.trace import Trace, digest, load_trace, write_trace

NODES = (Node("n0", 8000, 64 * MIB, 1001, 2, "T4"), Node("n1", 4000, 32 * MIB, 1001))
PODS = [
    Pod("a", PodShape(1000, MIB, 500, 1, "T4"), arrival=1, duration=10),
    Pod("b", PodShape(2000, 2 * MIB), arrival=2, duration=20),
    Pod("c", PodShape(1000, MIB, 500, 1, "T4"), arrival=3, duration=30),
]
WORKLOAD = Workload.of(PODS, timed=True)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "my_pods.csv"
    openb.write_nodes(nodes, NODES)
    openb.write_pods(pods, WORKLOAD)
    return nodes, pods


# Identity


def test_digest_ignores_how_shapes_were_numbered() -> None:
    renumbered = replace(
        WORKLOAD, shapes=(PodShape(77), *reversed(WORKLOAD.shapes)), shape_P=2 - WORKLOAD.shape_P, names=("a", "b", "c")
    )
    assert list(renumbered) == PODS
    assert digest(NODES, renumbered) == digest(NODES, WORKLOAD)


@pytest.mark.parametrize(
    "changed",
    [
        Workload.of([*PODS[:2], replace(PODS[2], name="d")], timed=True),
        Workload.of([*PODS[:2], replace(PODS[2], duration=31)], timed=True),
        Workload.of([*PODS[:2], replace(PODS[2], arrival=3.5)], timed=True),
        Workload.of([*PODS[:2], replace(PODS[2], gang=Gang("g", 1))], timed=True),
        Workload.of([*PODS[:2], replace(PODS[2], shape=PodShape(1000, MIB, 500, 1))], timed=True),
        Workload.of(
            [*PODS[:2], replace(PODS[2], shape=replace(PODS[2].shape, constraints=Constraints(node_name="n0")))],
            timed=True,
        ),
        Workload.of([PODS[1], PODS[0], PODS[2]], timed=True),
        Workload.of(PODS, timed=False),
        Workload.of(PODS[:2], timed=True),
    ],
)
def test_digest_sees_every_change_of_pods(changed: Workload) -> None:
    assert digest(NODES, changed) != digest(NODES, WORKLOAD)


def test_digest_sees_every_change_of_nodes() -> None:
    others = [
        NODES[::-1],
        NODES[:1],
        (NODES[0], replace(NODES[1], pods=5)),
        (NODES[0], replace(NODES[1], labels=(("a", "b"),))),
    ]
    assert len({digest(nodes, WORKLOAD) for nodes in [NODES, *others]}) == 5


def test_digest_is_stable() -> None:
    """A stored result names its trace by this; a change here makes every stored result a stranger."""
    assert digest(NODES, WORKLOAD) == "a890661017e53fe6ae3d8b70333d91da083fc997eaa59df9a03c7fd1addef1ba"


# Reading


def test_loads_tables(files: tuple[Path, Path], tmp_path: Path) -> None:
    trace = load_trace(*files)
    assert (trace.name, trace.nodes, list(trace.workload)) == ("my_pods", NODES, PODS)
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_bytes(files[1].read_bytes())
    assert load_trace(files[0], elsewhere).digest == trace.digest


def test_loads_shipped_traces_by_name() -> None:
    trace = load_trace(name="openb-like")
    nodes, workload = shipped("openb-like")
    assert (trace.name, trace.nodes) == ("openb-like", nodes)
    assert trace.digest == digest(nodes, workload)
    with pytest.raises(UnknownNameError, match="did you mean"):
        load_trace(name="openb-lik")


def test_a_file_replaces_one_part_of_a_shipped_trace(files: tuple[Path, Path]) -> None:
    smaller = load_trace(nodes=files[0], name="openb-like")
    assert (smaller.name, smaller.nodes, len(smaller.workload)) == ("openb-like", NODES, 8152)
    other = load_trace(pods=files[1], name="openb-like")
    assert (other.name, len(other.nodes), list(other.workload)) == ("my_pods", 1213, PODS)


def test_what_is_missing_is_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no nodes"):
        load_trace(pods=files[1])
    with pytest.raises(InputError, match="no pods"):
        load_trace(nodes=files[0])
    with pytest.raises(InputError, match="no nodes"):
        load_trace()
    with pytest.raises(InputError, match="no such file"):
        load_trace(files[0], tmp_path / "none.csv")
    with pytest.raises(InputError, match="'openb-like' is used"):
        load_trace(*files, "openb-like")
    odd = tmp_path / "pods.cvs"
    odd.write_text("")
    with pytest.raises(InputError, match=r"did you mean '.csv'"):
        load_trace(files[0], odd)


# Writing


@pytest.mark.parametrize("to", ["openb", "kubernetes"])
def test_every_format_brings_the_trace_back(to: str, tmp_path: Path) -> None:
    mixed = openb_like_pods(200, seed=5)
    trace = Trace.of("some", openb_like_nodes(0.05), mixed)
    written = write_trace(trace, tmp_path, to)
    nodes = written[0] if len(written) == 2 else None
    again = load_trace(nodes=nodes, pods=written[-1])
    assert (again.name, again.digest) == ("some", trace.digest)
    assert sorted(tmp_path.iterdir()) == sorted(written)


def test_manifests_in_a_directory_bring_nodes_and_pods(tmp_path: Path) -> None:
    trace = Trace.of("some", NODES, WORKLOAD)
    directory = tmp_path / "cluster"
    directory.mkdir()
    write_trace(trace, directory, "kubernetes")
    for again in (load_trace(pods=directory), load_trace(nodes=directory), load_trace(directory, directory)):
        assert (again.name, again.digest) == ("cluster", trace.digest)


def test_names_do_not_collide(tmp_path: Path) -> None:
    written = write_trace(Trace.of("nodes", NODES, WORKLOAD), tmp_path, "openb")
    assert [path.name for path in written] == ["nodes.csv", "pods.csv"]
    with pytest.raises(UnknownNameError, match="did you mean 'parquet'"):
        write_trace(Trace.of("x", NODES, WORKLOAD), tmp_path, "parket")


def test_parquet_holds_the_same_trace(tmp_path: Path) -> None:
    trace = Trace.of("some", NODES, WORKLOAD)
    nodes, pods = write_trace(trace, tmp_path, "parquet")
    assert (nodes.name, pods.name) == ("nodes.parquet", "some.parquet")
    assert load_trace(nodes, pods).digest == trace.digest


# Describing


def test_describes_a_small_trace() -> None:
    figures = describe(Trace.of("small", NODES, WORKLOAD))
    assert (figures.nodes, figures.pods, figures.distinct_shapes, figures.pods_naming_models) == (2, 3, 2, 2)
    cpu, memory, gpu = figures.resources
    assert (cpu.requested, cpu.capacity, round(cpu.percent or 0, 2)) == (4000, 12000, 33.33)
    assert (memory.requested, gpu.requested, gpu.capacity) == (4, 1000, 2000)
    assert gpu.offered_load_percent == 100 * 500 * (10 + 30) / (2 * 2000)
    assert [(c.kind, c.pods) for c in figures.classes] == [("cpu", 1), ("share", 2), ("whole", 0), ("multi", 0)]
    assert (figures.share_sizes, figures.device_counts) == ({500: 2}, {1: 2, 0: 1})
    assert [(group.model, group.nodes) for group in figures.node_models] == [("", 1), ("T4", 1)]
    assert figures.times is not None
    assert (figures.times.first_arrival, figures.times.last_arrival, figures.times.duration_median) == (1, 3, 20)
    assert figures.as_dict()["trace"] == "small"


def test_describes_pods_that_never_leave() -> None:
    stays = Workload.of([Pod("a", PodShape(1))], timed=True)
    figures = describe(Trace.of("stays", NODES, stays))
    assert figures.times is not None
    assert (figures.times.never_leaving, figures.times.duration_median) == (1, None)
    assert figures.resources[0].offered_load_percent is None
    untimed = replace(stays, timed=False, arrival_P=np.zeros(1))
    assert describe(Trace.of("untimed", NODES, untimed)).times is None


def test_the_shipped_trace_offers_the_load_it_says() -> None:
    gpu = describe(load_trace(name="openb-like")).resources[2]
    assert gpu.offered_load_percent is not None
    assert abs(gpu.offered_load_percent - 100) < 15


@pytest.mark.data
def test_describes_the_published_default_list(openb_data: Path) -> None:
    trace = load_trace(openb_data / "openb_node_list_gpu_node.csv", openb_data / "openb_pod_list_default.csv")
    figures = describe(trace)
    assert trace.name == "openb_pod_list_default"
    assert (figures.distinct_shapes, figures.distinct_shapes_without_memory) == (151, 91)
    assert [round(entry.percent or 0, 1) for entry in figures.resources] == [79.8, 60.2, 98.0]
    assert [round(entry.gpu_percent, 2) for entry in figures.classes] == [0, 28.45, 64.25, 7.29]
    assert [round(entry.cpu_percent, 2) for entry in figures.classes][:3] == [22.47, 21.71, 50.71]
    assert figures.device_counts == {1: 6989, 0: 1088, 8: 44, 2: 16, 4: 15}
    assert list(figures.share_sizes.items())[:3] == [(810, 1078), (470, 750), (320, 328)]
    assert len(figures.share_sizes) == 20
    assert figures.node_models[0].model == "G2"
