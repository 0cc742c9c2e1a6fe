"""`pilotage trace topology`: labels in the format of the input, never from its own output, the same bytes each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage.model.cluster import Node
from pilotage.model.workload import MIB, Gang, Pod, PodShape, Workload
from pilotage.workloads import openb
from pilotage.workloads.manifest_writing import write_manifests
from pilotage.workloads.manifests import read_manifests
from pilotage.workloads.topology import labelled

NODES = tuple(Node(f"n{i}", 8000, 64 * MIB, 1001, 2, "T4") for i in range(10))
PODS = Workload.of(Pod(f"p{i}", PodShape(1000, MIB), gang=Gang("g", 3)) for i in range(3))


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A directory of two files, one of them deeper down."""
    place = tmp_path / "cluster"
    (place / "deeper").mkdir(parents=True)
    write_manifests(place / "nodes.yaml", NODES, Workload.of(()))
    write_manifests(place / "deeper" / "pods.yaml", (), PODS)
    return place


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_a_table_stays_a_table(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "mine.csv", NODES)
    out = tmp_path / "out"
    done = pilotage("trace", "topology", "--nodes", tmp_path / "mine.csv", "--servers-per-rack", 3, "--out", out)
    assert (done.code, done.out) == (0, "")
    assert "10 nodes: 4 racks in 1 zones" in done.err
    assert list(contents(out)) == ["mine.csv"]
    assert openb.read_nodes(out / "mine.csv") == labelled(NODES, 3)


def test_manifests_become_one_file_with_their_pods(manifests: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = pilotage("trace", "topology", "--nodes", manifests, "--out", out, "--racks-per-zone", 2, "--json")
    told = json.loads(done.out)
    assert (told["nodes"], told["racks"], told["zones"], told["pods"]) == (10, 3, 2, 3)
    assert told["files"] == [str(out / "cluster.yaml")]
    nodes, workload = read_manifests(out / "cluster.yaml")
    assert nodes == labelled(NODES, racks_per_zone=2)
    assert list(workload) == list(PODS)


def test_output_below_the_input_is_never_read(manifests: Path) -> None:
    """The second run would find every node twice if it read what the first one wrote."""
    before = contents(manifests)
    out = manifests / "deeper" / "labelled"
    for _ in range(2):
        done = pilotage("trace", "topology", "--nodes", manifests, "--out", out)
        assert done.code == 0, done.err
        written = contents(out)
        assert list(written) == ["cluster.yaml"]
    assert {name: data for name, data in contents(manifests).items() if name in before} == before
    # Its own output, labelled once more, is the same.
    again = manifests / "again"
    assert pilotage("trace", "topology", "--nodes", out / "cluster.yaml", "--out", again).code == 0
    assert contents(again) == written


def test_output_above_the_input_leaves_nothing_out(manifests: Path) -> None:
    done = pilotage("trace", "topology", "--nodes", manifests, "--out", manifests.parent)
    assert done.code == 0, done.err
    assert read_manifests(manifests.parent / "cluster.yaml").nodes == labelled(NODES)


def test_a_shipped_trace_is_written_as_tables(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = pilotage("trace", "topology", "--trace", "openb-like-gangs", "--out", tmp_path / name)
        assert done.code == 0, done.err
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert list(contents(tmp_path / "one")) == ["nodes.csv", "openb-like-gangs.csv"]


def test_the_place_of_the_input_is_refused(manifests: Path, tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", NODES)
    before = contents(tmp_path)
    for nodes, out in (
        (manifests, manifests),
        (manifests, manifests / "deeper" / ".."),
        (manifests / "nodes.yaml", manifests),
        (tmp_path / "nodes.csv", tmp_path),
        (tmp_path / "nodes.csv", tmp_path / "nodes.csv"),
    ):
        done = pilotage("trace", "topology", "--nodes", nodes, "--out", out)
        assert done.code == 2
        assert "is where the nodes are read from" in done.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no nodes were given; expected --nodes FILE, or --trace NAME"),
        (["--nodes", "nodes.csv", "--trace", "openb-like"], "nodes were given twice"),
        (["--trace", "openb"], "unknown trace 'openb'; did you mean"),
        (["--nodes", "missing.csv"], "missing.csv: there is no such file"),
        (["--nodes", "missing.yaml"], "missing.yaml: no such file or directory"),
        (["--nodes", "notes.txt"], "unknown kind of file '.txt'"),
        (["--nodes", "pods"], "pods: there are no nodes"),
        (["--nodes", "missing.csv", "--servers-per-rack", "0"], "--servers-per-rack"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "pods").mkdir()
    done = pilotage("trace", "topology", *arguments, "--out", "out")
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "out").exists()
