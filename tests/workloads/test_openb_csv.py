"""OpenB tables: exact reading, exact writing, and an InputError with a place for everything else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, MIB, Gang, Pod, PodShape, Workload
from pilotage.workloads import openb
from pilotage.workloads.topology import RACK_LABEL, SERVER_LABEL, ZONE_LABEL

NODES_HEADER = "sn,cpu_milli,memory_mib,gpu,model"
PODS_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
TIMED_HEADER = f"{PODS_HEADER},gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(directory: Path, *lines: str) -> Path:
    path = directory / "list.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def refusal(path: Path, *, nodes: bool = False) -> InputError:
    with pytest.raises(InputError) as caught:
        openb.read_nodes(path) if nodes else openb.read_pods(path)
    assert caught.value.file == path
    return caught.value


# Reading


def test_reads_nodes_in_file_order(tmp_path: Path) -> None:
    path = written(tmp_path, NODES_HEADER, "b,32000,2048,2,T4", "a,8000,1024,0,")
    assert openb.read_nodes(path) == (
        Node("b", 32000, 2048 * MIB, 1001, 2, "T4"),
        Node("a", 8000, 1024 * MIB, 1001, 0, ""),
    )


def test_reads_timed_pods(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        TIMED_HEADER,
        "p2,1000,512,1,500,A|B,LS,Running,10,110,15",
        "p1,2000,0,0,0,,BE,Pending,5,25,",
        "p3,1000,512,1,500,A|B,LS,Running,30,40,30",
    )
    workload = openb.read_pods(path)
    assert workload.timed
    assert list(workload.names) == ["p2", "p1", "p3"]
    assert workload.shapes == (PodShape(1000, 512 * MIB, 500, 1, "A|B"), PodShape(2000))
    assert workload.shape_P.tolist() == [0, 1, 0]
    assert workload.arrival_P.tolist() == [10, 5, 30]
    assert workload.duration_P.tolist() == [95, 20, 10]  # from the start of running; Pending: from creation


def test_pods_without_times_arrive_by_row_and_stay(tmp_path: Path) -> None:
    workload = openb.read_pods(written(tmp_path, PODS_HEADER, "a,1,1,2,1000", "b,1,1,0,700"))
    assert not workload.timed
    assert workload.arrival_P.tolist() == [0, 1]
    assert workload.duration_P.tolist() == [FOREVER, FOREVER]
    assert [shape.gpu_milli for shape in workload.shapes] == [1000, 0]  # no device, so no part of one


def test_reads_priority_and_gangs(tmp_path: Path) -> None:
    path = written(tmp_path, f"{PODS_HEADER},priority,gang", "a,1,1,0,0,,x", "b,1,1,0,0,-5,", "c,1,1,0,0,0,x")
    workload = openb.read_pods(path)
    assert [pod.gang for pod in workload] == [Gang("x", 2), None, Gang("x", 2)]
    assert [pod.shape.priority for pod in workload] == [0, -5, 0]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + PODS_HEADER + "\r\na,1,2,1,300\r\n",
        '"name","cpu_milli","memory_mib","num_gpu","gpu_milli"\n"a",1,2,1,"300"\n\n',
        "gpu_milli,num_gpu,name,memory_mib,cpu_milli\n300,1,a,2,1",
    ],
)
def test_reads_what_other_tools_write(tmp_path: Path, content: str) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(content.encode())
    assert openb.read_pods(path).pod(0) == Pod("a", PodShape(1, 2 * MIB, 300, 1))


# Refusing


@pytest.mark.parametrize(
    ("row", "field", "number"),
    [
        ("b,1,1,0", None, 3),
        ("b,1,1,0,0,0", None, 3),
        ("", None, 3),
        ("b,x,1,0,0", "cpu_milli", 3),
        ("b,1.5,1,0,0", "cpu_milli", 3),
        ("b,-1,1,0,0", "cpu_milli", 3),
        ("b,,1,0,0", "cpu_milli", 3),
        ("b, 1,1,0,0", "cpu_milli", 3),
        ("b,1000000001,1,0,0", "cpu_milli", 3),
        ("b,99999999999999999999999,1,0,0", "cpu_milli", 3),
        (f"b,1,{2**40 + 1},0,0", "memory_mib", 3),
        ("b,1,1,63,1000", "num_gpu", 3),
        ("b,1,1,1,1001", "gpu_milli", 3),
        ("b,1,1,1,0", "gpu_milli", 3),
        (",1,1,0,0", "name", 3),
        ("a,1,1,0,0", "name", 3),
        (f"{'b' * 254},1,1,0,0", "name", 3),
        ('"b,1,1,0,0', None, 3),
        ('"b,c",1,1,0,0', None, 3),
        ("b\x00,1,1,0,0", None, 3),
        ("b\rc,1,1,0,0", None, 3),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, row: str, field: str | None, number: int) -> None:
    error = refusal(written(tmp_path, PODS_HEADER, "a,1,1,0,0", row, "z,1,1,0,0"))
    assert (error.field, error.row) == (field, number)
    assert f"row {number}" in str(error)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("name,cpu_milli,memory_mib,num_gpu", "gpu_milli"),
        ("name,cpu_milli,memory_mib,num_gpus,gpu_milli", "did you mean 'num_gpu'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,name", "twice"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time", "deletion_time"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,scheduled_time", "creation_time"),
        (NODES_HEADER, "sn"),
        ("\x7fELF", "column"),
    ],
)
def test_bad_headers_are_named(tmp_path: Path, header: str, said: str) -> None:
    error = refusal(written(tmp_path, header, ",".join("1" * len(header.split(",")))))
    assert said in str(error)
    assert error.row == 1


@pytest.mark.parametrize(
    ("times", "field"),
    [
        ("10,9,", "deletion_time"),
        ("10,20,9", "scheduled_time"),
        ("10,20,21", "deletion_time"),
        (",20,10", "creation_time"),
        ("nan,20,10", "creation_time"),
        ("10,inf,10", "deletion_time"),
        ("1700000000000,1700000000001,", "creation_time"),
    ],
)
def test_impossible_times_are_refused(tmp_path: Path, times: str, field: str) -> None:
    error = refusal(written(tmp_path, TIMED_HEADER, f"a,1,1,0,0,,LS,Running,{times}"))
    assert (error.field, error.row) == (field, 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\n\n\n", "empty"),
        (PODS_HEADER.encode(), "no rows"),
        (b"\xff\xfe\x00\x01" * 100, "UTF-8"),
        (PODS_HEADER.encode() + b"\na,1,1,0,0\nb\xe9,1,1,0,0\n", "row 3"),
        (bytes(range(32)), "control"),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(content)
    assert said in str(refusal(path))


def test_missing_directory_and_huge_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in str(refusal(tmp_path / "none.csv"))
    assert "not a file" in str(refusal(tmp_path))
    path = written(tmp_path, PODS_HEADER, "a,1,1,0,0")
    monkeypatch.setattr(openb, "MAX_FILE_BYTES", 10)
    assert "too large" in str(refusal(path))


def test_bad_nodes_are_named(tmp_path: Path) -> None:
    error = refusal(written(tmp_path, NODES_HEADER, "a,1,1,0,", "a,1,1,0,"), nodes=True)
    assert (error.field, error.row) == ("sn", 3)
    error = refusal(written(tmp_path, NODES_HEADER, "a,1,1,63,T4"), nodes=True)
    assert (error.field, error.row) == ("gpu", 2)


@quick
@given(st.binary(max_size=300))
def test_junk_is_an_input_error(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk.csv"
    path.write_bytes(junk)
    for read in (openb.read_nodes, openb.read_pods):
        with pytest.raises(InputError):
            read(path)


GOOD = f"{TIMED_HEADER}\np1,1000,512,1,500,A,LS,Running,10,110,15\np2,2000,0,0,0,,BE,Pending,5,25,\n".encode()


@quick
@given(st.data())
def test_a_damaged_file_is_read_or_an_input_error(tmp_path: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 20)))
    path = tmp_path / "list.csv"
    path.write_bytes(
        GOOD[:start] + data.draw(st.binary(max_size=5) | st.sampled_from([b",", b"\n", b'"'])) + GOOD[end:]
    )
    try:
        workload = openb.read_pods(path)
    except InputError:
        return
    assert len(workload) == len(workload.names) == len(workload.arrival_P)
    assert (workload.duration_P >= 0).all()


# Writing

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters=',"'), max_size=20)
sizes = st.integers(0, 10**6)
gpus = st.just((0, 0)) | st.tuples(st.integers(1, 1000), st.integers(1, 8))
seconds = st.integers(0, 10**12).map(lambda micros: round(micros / 10**6, 6)) | st.integers(0, 10**9).map(float)


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    milli, count = draw(gpus)
    priority = draw(st.just(0) | st.integers(-(2**31), 2**31 - 1))
    models = draw(st.just("") | names)
    return PodShape(draw(sizes), draw(sizes) * MIB, milli, count, models, priority=priority)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    pod_names = draw(st.lists(names.filter(bool), min_size=1, max_size=8, unique=True))
    groups = [draw(st.just("") | st.sampled_from(["g", "h"])) for _ in pod_names]
    gangs = {group: Gang(group, size) for group, size in Counter(groups).items() if group}
    timed = draw(st.booleans())
    pods = [
        Pod(
            name,
            draw(shapes()),
            arrival=draw(seconds) if timed else float(row),
            duration=draw(st.just(FOREVER) | seconds) if timed else FOREVER,
            gang=gangs.get(group),
        )
        for row, (name, group) in enumerate(zip(pod_names, groups, strict=True))
    ]
    return Workload.of(pods, timed=timed)


@quick
@given(workloads())
def test_pods_read_back_equal(tmp_path: Path, workload: Workload) -> None:
    path = tmp_path / "list.csv"
    openb.write_pods(path, workload)
    again = openb.read_pods(path)
    assert list(again) == list(workload)
    assert (again.shapes, again.gangs, again.timed) == (workload.shapes, workload.gangs, workload.timed)


node_values = st.tuples(sizes, sizes, st.integers(0, 500), st.integers(0, 62), st.just("") | names)


@quick
@given(st.dictionaries(names.filter(bool), node_values, min_size=1, max_size=6))
def test_nodes_read_back_equal(tmp_path: Path, values: dict[str, tuple[int, int, int, int, str]]) -> None:
    nodes = tuple(Node(name, cpu, mib * MIB, pods, gpu, model) for name, (cpu, mib, pods, gpu, model) in values.items())
    path = tmp_path / "nodes.csv"
    openb.write_nodes(path, nodes)
    assert openb.read_nodes(path) == nodes


def test_writes_the_published_columns(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    openb.write_nodes(path, [Node("n", 1000, 5 * MIB, 1001, 1, "T4")])
    assert path.read_text() == f"{NODES_HEADER}\nn,1000,5,1,T4\n"
    openb.write_pods(path, Workload.of([Pod("p", PodShape(1, MIB), arrival=3, duration=4)], timed=True))
    assert path.read_text() == f"{PODS_HEADER},creation_time,deletion_time,scheduled_time\np,1,1,0,0,3,7,3\n"


def test_writes_parquet_for_others(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.parquet", [Node("n", 1000, 5 * MIB, 1001, 1, "T4")])
    openb.write_pods(tmp_path / "pods.parquet", Workload.of([Pod("p", PodShape(1, MIB), arrival=3)], timed=True))
    node, pod = (pl.read_parquet(tmp_path / f"{name}.parquet").row(0, named=True) for name in ("nodes", "pods"))
    assert node == {"sn": "n", "cpu_milli": 1000, "memory_mib": 5, "gpu": 1, "model": "T4"}
    assert (pod["name"], pod["cpu_milli"], pod["creation_time"], pod["deletion_time"]) == ("p", 1, 3.0, None)


@pytest.mark.parametrize(
    "shape",
    [
        PodShape(1, extended=(("example.com/a", 1),)),
        PodShape(1, constraints=Constraints(node_name="n")),
        PodShape(1, memory_bytes=1),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, shape: PodShape) -> None:
    workload = Workload.of([Pod("p", PodShape(1)), Pod("q", shape)])
    path = tmp_path / "list.csv"
    with pytest.raises(InputError, match="row 3") as caught:
        openb.write_pods(path, workload)
    assert "'q'" in caught.value.problem
    assert not path.exists()
    openb.write_pods(path, workload, lossy=True)
    assert len(openb.read_pods(path)) == 2


def test_writing_replaces_whole_or_not_at_all(tmp_path: Path) -> None:
    path = written(tmp_path, "old")
    with pytest.raises(InputError):
        openb.write_pods(path, Workload.of([Pod("a,b", PodShape(1))]))
    with pytest.raises(InputError):
        openb.write_nodes(path, [])
    assert path.read_text() == "old\n"
    with pytest.raises(InputError, match="cannot be written"):
        openb.write_nodes(tmp_path / "none" / "list.csv", [Node("n", 1, MIB)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["list.csv"]


# The published lists


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "classes", "named", "gpu_milli"),
    [
        ("default", (1088, 3078, 3911, 75), 0, 6_086_800),
        ("cpu100", (789, 3078, 3911, 75), 0, 6_086_800),
        ("cpu250", (2356, 3078, 3911, 75), 0, 6_086_800),
        ("gpushare40", (1088, 4001, 3001, 62), 0, 5_641_200),
        ("gpushare100", (1088, 7064, 0, 0), 0, 3_952_700),
        ("gpuspec10", (1088, 3078, 3911, 75), 732, 6_086_800),
        ("gpuspec33", (1088, 3078, 3911, 75), 2388, 6_086_800),
        ("multigpu20", (1088, 3078, 3911, 247), 0, 7_086_800),
        ("multigpu50", (1088, 3078, 3911, 984), 0, 11_358_800),
    ],
)
def test_the_published_pod_lists(
    openb_data: Path, name: str, classes: tuple[int, ...], named: int, gpu_milli: int
) -> None:
    workload = openb.read_pods(openb_data / f"openb_pod_list_{name}.csv")
    by_pod = [workload.shapes[s] for s in workload.shape_P]
    kinds = Counter(shape.kind for shape in by_pod)
    assert len(workload) == sum(classes)
    assert (kinds["cpu"], kinds["share"], kinds["whole"], kinds["multi"]) == classes
    assert sum(bool(shape.gpu_models) for shape in by_pod) == named
    assert abs(int(workload.gpu_milli_P.sum()) - gpu_milli) <= 50  # printed to a tenth of a GPU
    assert workload.timed == ("multigpu" not in name)


@pytest.mark.data
def test_the_published_default_list(openb_data: Path) -> None:
    workload = openb.read_pods(openb_data / "openb_pod_list_default.csv")
    by_pod = [workload.shapes[s] for s in workload.shape_P]
    assert sum(shape.cpu_milli for shape in by_pod) == 85_436_012
    assert sum(shape.memory_bytes for shape in by_pod) == 303_546_211 * MIB
    assert len(workload.shapes) == 151
    assert len({(shape.cpu_milli, shape.gpu_milli, shape.gpu_count) for shape in by_pod}) == 91
    assert (np.diff(workload.arrival_P) >= 0).all()
    assert workload.arrival_P[-1] == 12_901_761


@pytest.mark.data
def test_the_published_node_lists(openb_data: Path) -> None:
    for name, count, cpu, memory in (
        ("all", 1523, 125_514_000, 612_028_416),
        ("gpu", 1213, 107_018_000, 503_828_480),
    ):
        nodes = openb.read_nodes(openb_data / f"openb_node_list_{name}_node.csv")
        assert (len(nodes), sum(node.gpu_count for node in nodes)) == (count, 6212)
        assert sum(node.cpu_milli for node in nodes) == cpu
        assert sum(node.memory_bytes for node in nodes) == memory * MIB
        assert {node.pods for node in nodes} == {1001}


# Where nodes stand


PLACED = (
    Node("a", 1000, MIB, 1001, labels=((RACK_LABEL, "r"), (SERVER_LABEL, "s"), (ZONE_LABEL, "z"))),
    Node("b", 1000, MIB, 1001, labels=((RACK_LABEL, "q"),)),
    Node("c", 1000, MIB, 1001),
)


def test_labels_of_place_are_columns(tmp_path: Path) -> None:
    openb.write_nodes(tmp_path / "nodes.csv", PLACED)
    lines = (tmp_path / "nodes.csv").read_text().splitlines()
    assert lines[0] == "sn,cpu_milli,memory_mib,gpu,model,zone,rack,server"
    assert [line.split(",", 5)[5] for line in lines[1:]] == ["z,r,s", ",q,", ",,"]
    assert openb.read_nodes(tmp_path / "nodes.csv") == PLACED
    openb.write_nodes(tmp_path / "some.csv", PLACED[1:])
    assert (tmp_path / "some.csv").read_text().splitlines()[0].endswith("model,rack")
    assert openb.read_nodes(tmp_path / "some.csv") == PLACED[1:]


@pytest.mark.parametrize("labels", [(("pool", "a"),), ((ZONE_LABEL, ""),)])
def test_other_labels_are_refused_or_left_out(labels: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    nodes = [replace(PLACED[1], labels=(*PLACED[1].labels, *labels))]
    with pytest.raises(InputError, match="no labels but zone, rack and server"):
        openb.write_nodes(tmp_path / "nodes.csv", nodes)
    assert list(tmp_path.iterdir()) == []
    openb.write_nodes(tmp_path / "nodes.csv", nodes, lossy=True)
    assert openb.read_nodes(tmp_path / "nodes.csv") == PLACED[1:2]


def test_a_place_that_would_break_the_table_is_refused(tmp_path: Path) -> None:
    for bad in ("a,b", "x" * 254, 'quo"te'):
        with pytest.raises(InputError, match="rack: bad value"):
            openb.write_nodes(tmp_path / "nodes.csv", [replace(PLACED[1], labels=((RACK_LABEL, bad),))])
    assert list(tmp_path.iterdir()) == []


def test_devices_that_a_pod_must_get_have_no_column(tmp_path: Path) -> None:
    workload = Workload.of([Pod("p", PodShape(1, MIB, 1000, 1, gpu_devices=2))])
    with pytest.raises(InputError, match="devices of its own"):
        openb.write_pods(tmp_path / "pods.csv", workload)
