"""What `--add-nodes` understands, and what it says about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotage.model.cluster import Node
from pilotage.model.constraints import Taint
from pilotage.model.errors import InputError
from pilotage.workloads.node_template import copies, parse

GIB = 2**30
NODES = (
    Node("a", 1000, GIB, labels=(("kubernetes.io/hostname", "a"), ("zone", "z1")), taints=(Taint("gpu"),)),
    Node("b", 2000, GIB, gpu_count=2, gpu_model="T4"),
)
MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: big, labels: {zone: z2}}
status:
  allocatable: {cpu: "64", memory: 256Gi, pods: "50", nvidia.com/gpu: "4"}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}]}
"""


def test_amounts() -> None:
    assert parse("cpu=96,memory=384Gi,gpus=8,model=G2", NODES) == Node(
        "node", 96_000, 384 * GIB, pods=110, gpu_count=8, gpu_model="G2"
    )
    assert parse(" pods = 20, memory=1.5Gi , cpu=500m", ()) == Node("node", 500, 3 * GIB // 2, pods=20)
    assert parse("cpu=4,memory=1Gi,gpus=1", ()) == Node("node", 4000, GIB, gpu_count=1)


def test_a_node_of_the_trace() -> None:
    assert parse("like=b", NODES) == NODES[1]


def test_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(MANIFEST)
    node = parse(str(path), ())
    assert node == Node("big", 64_000, 256 * GIB, pods=50, gpu_count=4, labels=(("zone", "z2"),))


def test_copies_have_names_of_their_own() -> None:
    first, second = copies(NODES[0], 2)
    assert (first.name, second.name) == ("a-added-0001", "a-added-0002")
    assert dict(first.labels) == {"kubernetes.io/hostname": "a-added-0001", "zone": "z1"}
    assert first.taints == NODES[0].taints
    assert [node.name for node in copies(NODES[0], 2, [*NODES, first])] == ["a-added-0002", "a-added-0003"]
    assert copies(NODES[0], 0) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("", "--add-nodes: '' says nothing; expected cpu=96"),
        ("96", "--add-nodes: '96' says nothing"),
        ("cpu=96,memory=", "--add-nodes: 'memory=' says nothing"),
        ("cpu=96", "--add-nodes: memory is missing"),
        ("memory=1Gi", "--add-nodes: cpu is missing"),
        ("cpu=1,cpu=2,memory=1Gi", "--add-nodes: cpu is given twice"),
        ("cpu=1,memory=1Gi,gpu=8", "--add-nodes: unknown key 'gpu'; did you mean 'gpus'"),
        ("cpu=1,memory=lots", "--add-nodes memory: 'lots' is not a quantity; expected a quantity such as"),
        ("cpu=-1,memory=1Gi", "--add-nodes cpu: -1 is negative"),
        ("cpu=1,memory=1Ei", "--add-nodes memory: 1Ei is too much"),
        ("cpu=1,memory=1Gi,gpus=1.5", r"--add-nodes gpus: 1\.5; expected a whole number from 0 to 62"),
        ("cpu=1,memory=1Gi,gpus=63", "--add-nodes gpus: 63; expected a whole number from 0 to 62"),
        ("cpu=1,memory=1Gi,pods=0.5", r"--add-nodes pods: 0\.5; expected a whole number"),
        ("cpu=1,memory=1Gi,model=G2", "--add-nodes: a model without gpus"),
        ("cpu=1,memory=1Gi,gpus=0,model=G2", "--add-nodes: a model without gpus"),
        ("like=c", "--add-nodes: unknown node 'c'; known: a, b"),
        ("no-such-file.yaml", "no-such-file.yaml: no such file"),
    ],
)
def test_what_is_wrong_is_said(spec: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse(spec, NODES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (POD, "0 nodes and 1 pods"),
        (MANIFEST + POD, "1 nodes and 1 pods"),
        (MANIFEST + "---" + MANIFEST.replace("big", "bigger"), "2 nodes and 0 pods"),
        ("", "0 nodes and 0 pods"),
    ],
)
def test_a_file_holds_one_node_and_nothing_else(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"nodes\.yaml, --add-nodes: {found}; expected exactly one Node and no pods"):
        parse(str(path), NODES)


def test_what_is_wrong_in_a_file_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(MANIFEST.replace("256Gi", "much"))
    with pytest.raises(InputError, match=r"node\.yaml, row 6, document 1, status\.allocatable\.memory: 'much'"):
        parse(str(path), NODES)
