"""Every code is found where it should be, and nowhere in a good trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Taint
from pilotage.model.workload import GPU_MILLI, MIB, Gang, Pod, PodShape, Workload
from pilotage.workloads import check as checking
from pilotage.workloads.check import CODES, Finding, check

NODE = Node("node-0", 8000, 100 * MIB, pods=10, gpu_count=2, gpu_model="T4")
SHAPE = PodShape(1000, MIB)
GPU = PodShape(1000, MIB, GPU_MILLI, 1)


def pods(*shapes: PodShape, gang: Gang | None = None) -> list[Pod]:
    return [Pod(f"pod-{row}", shape, gang=gang) for row, shape in enumerate(shapes)]


def found(code: str, nodes: list[Node], pods: list[Pod], *, timed: bool = False) -> list[Finding]:
    return [finding for finding in check(nodes, Workload.of(pods, timed=timed)) if finding.code == code]


def test_a_good_trace_has_only_information() -> None:
    findings = check([NODE], Workload.of(pods(SHAPE, GPU)))
    assert [finding.code for finding in findings] == ["P0005"] * 3
    assert findings[0].message == "all pods together ask for 25.0 % of the nodes' capacity"


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (PodShape(9000, MIB), "needs 9000 milli of CPU, the largest node has 8000"),
        (PodShape(1, 200 * MIB), "200 MiB of memory, the largest node has 100"),
        (PodShape(1, MIB, 1000, 3), "3 GPUs, the largest node has 2"),
        (PodShape(1, MIB, extended=(("example.com/a", 2),)), "no node has example.com/a"),
        (PodShape(1, MIB, constraints=Constraints(node_name="else")), "no node has a node that its constraints"),
        (PodShape(20000, MIB, 1000, 3), "CPU"),
    ],
)
def test_pods_that_fit_nowhere_say_why(shape: PodShape, said: str) -> None:
    (finding,) = found("P0001", [NODE], pods(SHAPE, shape, shape))
    assert said in finding.message
    assert finding.where == "pod pod-1 and 1 of the same shape"
    assert finding.severity == "error"


def test_pods_that_no_single_node_can_hold() -> None:
    cpu, gpu = replace(NODE, name="a", gpu_count=0, gpu_model=""), replace(NODE, name="b", cpu_milli=100)
    (finding,) = found("P0001", [cpu, gpu], pods(GPU))
    assert finding.message == "no node has all it needs at once: 1000 milli of CPU, 1 MiB, 1 x 1000 milli of GPU"


def test_taints_and_a_full_node_keep_pods_away() -> None:
    assert found("P0001", [replace(NODE, taints=(Taint("a"),))], pods(SHAPE))
    assert found("P0001", [replace(NODE, pods=0)], pods(SHAPE))[0].message == "no node has room for pods"
    assert not found("P0001", [NODE], pods(replace(SHAPE, constraints=Constraints(node_name="node-0"))))


def test_gpu_models() -> None:
    (finding,) = found("P0002", [NODE], pods(replace(GPU, gpu_models="A100|H100")))
    assert finding.message == "wants A100|H100; nodes have T4"
    assert not found("P0001", [NODE], pods(replace(GPU, gpu_models="A100")))
    (finding,) = found("P0017", [NODE], pods(replace(GPU, gpu_models="T4|A100")))
    assert "A100" in finding.message
    assert not found("P0002", [NODE], pods(replace(SHAPE, gpu_models="A100")))  # no GPU, so no model
    nameless = replace(NODE, name="x", gpu_model="")
    assert found("P0018", [NODE, nameless], pods(replace(GPU, gpu_models="T4")))
    assert not found("P0018", [NODE, nameless], pods(GPU))


def test_requests() -> None:
    assert found("P0003", [NODE], pods(PodShape(1, MIB, 500, 2)))
    assert found("P0004", [NODE], pods(PodShape()))
    assert not found("P0004", [NODE], pods(PodShape(extended=(("example.com/a", 1),))))
    assert found("P0020", [NODE], pods(PodShape(1)))
    assert not found("P0020", [NODE], pods(PodShape()))


def test_demand() -> None:
    assert [finding.where for finding in found("P0006", [NODE], pods(*[SHAPE] * 9))] == ["CPU"]
    assert not found("P0006", [NODE], pods(*[SHAPE] * 9), timed=True)
    big = PodShape(1, 2**60)
    assert len(found("P0006", [NODE], pods(*[big] * 20))) == 1  # more bytes than an int64 holds
    assert [finding.where for finding in found("P0005", [replace(NODE, gpu_count=0)], pods(SHAPE))] == ["CPU", "memory"]


def test_times() -> None:
    late, early = Pod("a", SHAPE, arrival=5, duration=0), Pod("b", SHAPE, arrival=1, duration=2)
    assert found("P0007", [NODE], [late, early], timed=True)[0].where == "pod a"
    assert found("P0008", [NODE], [late, early], timed=True)[0].where == "pod b"
    assert not found("P0008", [NODE], [early, late], timed=True)
    assert not found("P0007", [NODE], [late, early])


def test_gangs() -> None:
    assert found("P0009", [NODE], pods(*[GPU] * 3, gang=Gang("g", 3)))[0].where == "gang g"
    assert not found("P0009", [NODE, replace(NODE, name="node-1")], pods(*[GPU] * 3, gang=Gang("g", 3)))
    share = PodShape(1, MIB, 400, 1)
    assert not found("P0009", [NODE], pods(*[share] * 4, gang=Gang("g", 4)))
    assert found("P0009", [NODE], pods(*[share] * 5, gang=Gang("g", 5)))
    mixed = [*[PodShape(1000, MIB)] * 5, *[PodShape(1001, MIB)] * 5]
    assert "125.1 % of the cluster's CPU" in found("P0009", [NODE], pods(*mixed, gang=Gang("g", 10)))[0].message
    assert found("P0010", [NODE], pods(SHAPE, gang=Gang("g", 2)))
    assert found("P0021", [NODE], pods(SHAPE, SHAPE, gang=Gang("g", 1)))
    both = [*pods(GPU, gang=Gang("g", 1)), Pod("x", SHAPE), Pod("y", SHAPE, gang=Gang("h", 1))]
    assert not [f for code in ("P0009", "P0010", "P0021") for f in found(code, [NODE], both)]


def test_nodes() -> None:
    plain = replace(NODE, name="plain", gpu_count=0, gpu_model="")
    assert found("P0011", [NODE, plain], pods(GPU))[0].message == "1 of 2 nodes have no GPU"
    assert not found("P0011", [NODE, plain], pods(SHAPE))
    assert found("P0016", [NODE, replace(NODE, name="x", memory_bytes=0)], pods(SHAPE))[0].where == "node x"


def test_names() -> None:
    assert found("P0013", [NODE, NODE], pods(SHAPE))
    assert found("P0014", [NODE], pods(SHAPE) * 2)
    assert found("P0015", [NODE], [Pod("Pod_1", SHAPE)])
    assert not found("P0015", [NODE], [Pod("team-a/pod.one", SHAPE)])
    assert found("P0012", [NODE], [Pod("pod-9", SHAPE), Pod("pod-10", SHAPE)])[0].where == "pod pod-10"
    assert not found("P0012", [NODE], [Pod("pod-09", SHAPE), Pod("pod-10", SHAPE), Pod("other-1", SHAPE)])


def test_nothing_at_all() -> None:
    assert [finding.code for finding in check([], Workload.of(pods(SHAPE)))] == ["P0019"]
    assert [finding.code for finding in check([NODE], Workload.of([]))] == ["P0019"]


def test_errors_come_first_and_many_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SHOWN_PER_CODE", 2)
    findings = check([NODE], Workload.of(pods(*[PodShape(9000 + n, MIB) for n in range(5)])))
    assert [finding.code for finding in findings[:3]] == ["P0001"] * 3
    assert findings[2].message == "and 3 more like these"


def test_chunks_give_the_same_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    many = pods(*[PodShape(int(cpu), MIB) for cpu in random.integers(1, 16000, 50)])
    nodes = [replace(NODE, name=f"node-{n}", cpu_milli=8000 + n) for n in range(3)]
    whole = check(nodes, Workload.of(many))
    monkeypatch.setattr(checking, "_CHUNK", 1)
    assert check(nodes, Workload.of(many)) == whole


def test_fits_agrees_with_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SHOWN_PER_CODE", 1000)
    random = np.random.default_rng(1)
    nodes = [
        Node(f"n{i}", int(random.integers(1, 5)), int(random.integers(1, 5)), 5, int(random.integers(0, 4)), model)
        for i, model in enumerate(["A", "B", ""] * 4)
    ]
    shapes = [
        PodShape(int(c), int(m), 1000 if g else 0, int(g), str(w))
        for c, m, g, w in zip(
            random.integers(0, 6, 300),
            random.integers(0, 6, 300),
            random.integers(0, 5, 300),
            random.choice(["", "A", "B|A", "C"], 300),
            strict=True,
        )
    ]

    def fits(shape: PodShape, node: Node) -> bool:
        model = not shape.gpu_count or shape.accepts_model(node.gpu_model)
        room = shape.cpu_milli <= node.cpu_milli and shape.memory_bytes <= node.memory_bytes
        return room and shape.gpu_count <= node.gpu_count and model

    expected = {shape for shape in shapes if not any(fits(shape, node) for node in nodes)}
    findings = check(nodes, Workload.of(pods(*shapes)))
    assert len([finding for finding in findings if finding.code in ("P0001", "P0002")]) == len(expected)


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str) -> None:
    entry = CODES[code]
    assert entry.meaning.endswith(".")
    assert entry.advice.endswith(".")
    assert "\n" not in entry.meaning + entry.advice


def test_codes_are_numbered_without_gaps() -> None:
    number: Callable[[int], str] = "P{:04d}".format
    assert list(CODES) == [number(i + 1) for i in range(len(CODES))]
