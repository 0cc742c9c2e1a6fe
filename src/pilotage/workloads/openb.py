"""OpenB tables: node and pod lists as CSV, read strictly and written whole.

A file is checked once, here, so that nothing behind this door has to doubt a number. What a bad file gets is an
`InputError` with its row (the header is row 1) and column; it never gets a half-read workload.

A path that ends in .parquet is Parquet with the same columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pilotage.model.cluster import MAX_AMOUNT, MAX_DEVICES, Node
from pilotage.model.constraints import ANYWHERE
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, GPU_MILLI, MIB, FloatArray, Gang, IntArray, PodShape, Workload
from pilotage.workloads.columns import Column, Typed, checked, refuse
from pilotage.workloads.csv_cells import Cells, check_header, read_cells
from pilotage.workloads.files import replace_file
from pilotage.workloads.parquet_reading import read_parquet
from pilotage.workloads.tables import decimal, numbers, parquet, texts, wholes
from pilotage.workloads.topology import RACK_LABEL, SERVER_LABEL, ZONE_LABEL

MAX_FILE_BYTES = 1 << 30  # a larger file is a mistake or an attack; reading takes several times its size in memory
MAX_CPU_MILLI = 10**9
MAX_MEMORY_MIB = MAX_AMOUNT >> 20
MAX_PODS_PER_NODE = 10**6
MAX_SECONDS = 4 * 10**9  # Unix seconds fit until 2096; anything larger is probably milliseconds
PODS_PER_NODE = 1001  # what the published node lists allow; they have no column for it
TIME_DECIMALS = 6  # microseconds, so that deletion - start gives the written duration back exactly

PARQUET = ".parquet"
LABEL_COLUMNS = {"zone": ZONE_LABEL, "rack": RACK_LABEL, "server": SERVER_LABEL}  # other labels have no column
NODE_COLUMNS = (
    Column("sn", "text"),
    Column("cpu_milli", "whole", high=MAX_CPU_MILLI),
    Column("memory_mib", "whole", high=MAX_MEMORY_MIB),
    Column("gpu", "whole", high=MAX_DEVICES),
    Column("model", "text", may_be_empty=True),
    Column("pods", "whole", high=MAX_PODS_PER_NODE, required=False),
    *(Column(name, "text", required=False, may_be_empty=True) for name in LABEL_COLUMNS),
)
POD_COLUMNS = (
    Column("name", "text"),
    Column("cpu_milli", "whole", high=MAX_CPU_MILLI),
    Column("memory_mib", "whole", high=MAX_MEMORY_MIB),
    Column("num_gpu", "whole", high=MAX_DEVICES),
    Column("gpu_milli", "whole", high=GPU_MILLI),
    Column("gpu_spec", "text", required=False, may_be_empty=True),
    Column("qos", "text", required=False, may_be_empty=True),
    Column("pod_phase", "text", required=False, may_be_empty=True),
    Column("creation_time", "seconds", high=MAX_SECONDS, required=False),
    Column("deletion_time", "seconds", high=MAX_SECONDS, required=False, may_be_empty=True),
    Column("scheduled_time", "seconds", high=MAX_SECONDS, required=False, may_be_empty=True),
    Column("priority", "whole", low=-(2**31), high=2**31 - 1, required=False, may_be_empty=True),
    Column("gang", "text", required=False, may_be_empty=True),
)
_SHAPE_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "priority")

Row = TypeVar("Row", bound=Hashable)


# Reading


def _read(path: Path, columns: Sequence[Column]) -> Cells:
    known = {column.name: column.required for column in columns}
    if Path(path).suffix != PARQUET:
        return read_cells(path, known, MAX_FILE_BYTES)
    found = read_parquet(path, list(known))
    check_header(list(found), known, path)
    return Cells({name: ["" if value is None else str(value) for value in found[name].values] for name in found})


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes of a list, in file order."""
    table = checked(_read(path, NODE_COLUMNS), NODE_COLUMNS, path, unique="sn")
    names = [column.name for column in NODE_COLUMNS if column.name in table]
    return tuple(_node(dict(zip(names, row, strict=True))) for row in table.rows(names))


def _node(row: dict[str, int | str]) -> Node:
    labels = ((key, str(row.get(column, ""))) for column, key in LABEL_COLUMNS.items())
    return Node(
        name=str(row["sn"]),
        cpu_milli=int(row["cpu_milli"]),
        memory_bytes=int(row["memory_mib"]) * MIB,
        pods=int(row.get("pods", PODS_PER_NODE)),
        gpu_count=int(row["gpu"]),
        gpu_model=str(row["model"]),
        labels=tuple(sorted((key, text) for key, text in labels if text)),
    )


def read_pods(path: Path) -> Workload:
    """The pods of a list, in file order; timed if it has creation and deletion times."""
    table = _checked_pods(_read(path, POD_COLUMNS), path)
    names = [name for name in _SHAPE_COLUMNS if name in table]
    rows, shape_P = _distinct(table.rows(names))
    arrival_P, duration_P, timed = _times(table)
    gangs, gang_P = _gangs(table)
    return Workload(
        names=table.text["name"],
        shapes=tuple(_shape(dict(zip(names, row, strict=True))) for row in rows),
        shape_P=shape_P,
        arrival_P=arrival_P,
        duration_P=duration_P,
        gangs=gangs,
        gang_P=gang_P,
        timed=timed,
    )


def _shape(row: dict[str, int | str]) -> PodShape:
    return PodShape(
        cpu_milli=int(row["cpu_milli"]),
        memory_bytes=int(row["memory_mib"]) * MIB,
        gpu_milli=int(row["gpu_milli"]) if row["num_gpu"] else 0,
        gpu_count=int(row["num_gpu"]),
        gpu_models=str(row.get("gpu_spec", "")),
        priority=int(row.get("priority", 0)),
    )


def _distinct(rows: Iterable[Row]) -> tuple[list[Row], IntArray]:
    """Each distinct row, in order of appearance, and for every row which it is."""
    number: dict[Row, int] = {}
    index_P = np.array([number.setdefault(row, len(number)) for row in rows], np.int64)
    return list(number), index_P


def _gangs(table: Typed) -> tuple[tuple[Gang, ...], IntArray]:
    if not any(table.text.get("gang", ())):
        return (), np.zeros(0, np.int64)
    names, group_P = _distinct(table.text["gang"])
    gangs = tuple(Gang(name, int(size)) for name, size in zip(names, np.bincount(group_P), strict=True) if name)
    named = np.array([bool(name) for name in names])
    number = np.where(named, np.cumsum(named) - 1, -1)
    return gangs, number[group_P]


def _times(table: Typed) -> tuple[FloatArray, FloatArray, bool]:
    if "creation_time" not in table:
        rows = len(table.text["name"])
        return np.arange(rows, dtype=np.float64), np.full(rows, FOREVER), False
    lasted_P = np.round(table.seconds["deletion_time"] - _started(table), TIME_DECIMALS)
    return table.seconds["creation_time"], np.where(np.isnan(lasted_P), FOREVER, lasted_P), True


def _started(table: Typed) -> FloatArray:
    """When a pod began to run; a pod that never was scheduled (Pending) counts from its creation."""
    created_P = table.seconds["creation_time"]
    started_P = table.seconds.get("scheduled_time", created_P)
    return np.where(np.isnan(started_P), created_P, started_P)


# Checking


def _checked_pods(cells: Cells, path: Path) -> Typed:
    table = checked(cells, POD_COLUMNS, path, unique="name")
    gpu_milli, num_gpu = table.whole["gpu_milli"], table.whole["num_gpu"]
    gpu_milli[num_gpu == 0] = 0
    refuse(
        (num_gpu > 0) & (gpu_milli == 0),
        InputError("asks for GPUs but for no part of them", file=path, field="gpu_milli", expected="1 to 1000"),
    )
    _check_times(table, path)
    return table


def _check_times(table: Typed, path: Path) -> None:
    given = [name for name in ("creation_time", "deletion_time", "scheduled_time") if name in table]
    if not given:
        return
    for name in ("creation_time", "deletion_time"):
        if name not in given:
            raise InputError(f"column is missing beside {given[0]!r}", file=path, row=1, field=name)
    created, deleted, started = table.seconds["creation_time"], table.seconds["deletion_time"], _started(table)
    for late, early, field_name in (
        (deleted, created, "deletion_time"),
        (started, created, "scheduled_time"),
        (deleted, started, "deletion_time"),
    ):
        other = "scheduled_time" if early is started else "creation_time"
        wrong = InputError(f"lies before {other}", file=path, field=field_name, expected=f"at least {other}")
        refuse(late < early, wrong)


# Writing


def write_nodes(path: Path, nodes: Sequence[Node], *, lossy: bool = False) -> None:
    """Write a node list; what the format cannot hold is refused, or left out if `lossy`."""
    for row, node in enumerate(nodes, start=2):
        if not lossy and (node.extended or _other_labels(node) or node.taints or node.memory_bytes % MIB):
            problem = f"node {node.name!r} has other resources, labels, taints or a memory that is not whole MiB"
            expected = "a node of cpu, MiB and GPUs, with no labels but zone, rack and server, or --lossy"
            raise InputError(problem, file=path, row=row, expected=expected)
    names = [column.name for column in NODE_COLUMNS]
    table = dict(zip(names, zip(*map(_node_row, nodes), strict=True), strict=True)) if nodes else {}
    shown = [column.name for column in NODE_COLUMNS if column.required]
    shown += ["pods"] if any(node.pods != PODS_PER_NODE for node in nodes) else []
    shown += [name for name, key in LABEL_COLUMNS.items() if any(key in dict(node.labels) for node in nodes)]
    cells = {name: list(map(str, table.get(name, ()))) for name in shown}
    _write(path, cells, checked(Cells(cells), NODE_COLUMNS, path, unique="sn"))


def _node_row(node: Node) -> tuple[int | str, ...]:
    labels = dict(node.labels)
    stands = (labels.get(key, "") for key in LABEL_COLUMNS.values())
    return (node.name, node.cpu_milli, node.memory_bytes // MIB, node.gpu_count, node.gpu_model, node.pods, *stands)


def _other_labels(node: Node) -> bool:
    """Whether it has labels without a column; one of no text would come back as none."""
    return any(key not in LABEL_COLUMNS.values() or not text for key, text in node.labels)


def write_pods(path: Path, workload: Workload, *, lossy: bool = False) -> None:
    """Write a pod list; what the format cannot hold is refused, or left out if `lossy` (memory is rounded up).

    Arrivals and durations are written only if they came from the source (`timed`), to the microsecond.
    """
    if not lossy:
        _refuse_loss(workload, path)
    shape_P = workload.shape_P.tolist()
    rows = [tuple(map(str, _shape_row(shape))) for shape in workload.shapes]
    cells = {"name": list(workload.names)}
    cells |= {name: [rows[s][place] for s in shape_P] for place, name in enumerate(_SHAPE_COLUMNS[:4])}
    if any(shape.gpu_models for shape in workload.shapes):
        cells["gpu_spec"] = [workload.shapes[s].gpu_models for s in shape_P]
    if workload.timed:
        cells |= _time_cells(workload)
    if any(shape.priority for shape in workload.shapes):
        cells["priority"] = [str(workload.shapes[s].priority) for s in shape_P]
    if workload.gangs:
        names = [*(gang.name for gang in workload.gangs), ""]
        cells["gang"] = [names[g] for g in workload.gang_P.tolist()]  # -1, no gang, is the last one
    _write(path, cells, _checked_pods(Cells(cells), path))


def _shape_row(shape: PodShape) -> tuple[int | str, ...]:
    memory_mib = -(-shape.memory_bytes // MIB)
    return (shape.cpu_milli, memory_mib, shape.gpu_count, shape.gpu_milli, shape.gpu_models, shape.priority)


def _time_cells(workload: Workload) -> dict[str, list[str]]:
    arrival_P, end_P = workload.arrival_P, workload.arrival_P + workload.duration_P
    times = {"creation_time": arrival_P, "deletion_time": end_P, "scheduled_time": arrival_P}
    return {name: _seconds_cells(np.round(time_P, TIME_DECIMALS)) for name, time_P in times.items()}


def _seconds_cells(time_P: FloatArray) -> list[str]:
    """Whole numbers where all are; nothing for never."""
    known = time_P[time_P != FOREVER]
    write = (lambda time: str(int(time))) if (known % 1 == 0).all() else decimal
    return ["" if time == FOREVER else write(time) for time in time_P.tolist()]


def _refuse_loss(workload: Workload, path: Path) -> None:
    for number, shape in enumerate(workload.shapes):
        if shape.extended or shape.constraints != ANYWHERE or shape.gpu_devices or shape.memory_bytes % MIB:
            row = int((workload.shape_P == number).argmax())
            problem = (
                f"pod {workload.names[row]!r} has other resources, constraints, devices of its own or a memory that is "
                "not whole MiB"
            )
            raise InputError(problem, file=path, row=row + 2, expected="a pod of cpu, MiB and GPUs, or --lossy")


def _write(path: Path, cells: Mapping[str, list[str]], typed: Typed) -> None:
    if Path(path).suffix != PARQUET:
        lines = [",".join(cells), *map(",".join, zip(*cells.values(), strict=True))]
        replace_file(Path(path), "".join(f"{line}\n" for line in lines).encode())
        return
    columns = {name: texts(values) for name, values in typed.text.items()}
    columns |= {name: wholes(values.tolist()) for name, values in typed.whole.items()}
    columns |= {name: numbers(values.tolist()) for name, values in typed.seconds.items()}
    replace_file(Path(path), parquet({name: columns[name] for name in _in_order(columns)}))


def _in_order(names: Iterable[str]) -> list[str]:
    order = list(dict.fromkeys(column.name for column in (*NODE_COLUMNS, *POD_COLUMNS)))
    return sorted(names, key=order.index)
