"""OpenB tables: node and pod lists as CSV, read strictly and written whole.

A file is checked once, here, so that nothing behind this door has to doubt a number. What a bad file gets is an
`InputError` with its row (the header is row 1) and column; it never gets a half-read workload.

A path that ends in .parquet is written as Parquet with the same columns, for analysis elsewhere. It is not read: the
Parquet reader of polars can be made to end the process by a damaged file, and no input may do that.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from pilotage.model.cluster import MAX_AMOUNT, MAX_DEVICES, Node
from pilotage.model.constraints import ANYWHERE
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FOREVER, GPU_MILLI, MIB, FloatArray, Gang, IntArray, PodShape, Workload
from pilotage.workloads.files import replace_file
from pilotage.workloads.topology import RACK_LABEL, SERVER_LABEL, ZONE_LABEL

if TYPE_CHECKING:
    import polars as pl

MAX_FILE_BYTES = 1 << 30  # a larger file is a mistake or an attack; reading takes several times its size in memory
MAX_TEXT = 253  # the longest name Kubernetes allows
MAX_CPU_MILLI = 10**9
MAX_MEMORY_MIB = MAX_AMOUNT >> 20
MAX_PODS_PER_NODE = 10**6
MAX_SECONDS = 4 * 10**9  # Unix seconds fit until 2096; anything larger is probably milliseconds
PODS_PER_NODE = 1001  # what the published node lists allow; they have no column for it
TIME_DECIMALS = 6  # microseconds, so that deletion - start gives the written duration back exactly

_NEWLINE, _COMMA, _SPACE = 10, 44, 32
_SHOWN = 40  # characters of a bad value that a message repeats
_SEPARATORS = r'[,"\x00-\x1f\x7f]'


class Column(NamedTuple):
    """One column of a table: what it may hold and whether it, or a value in it, may be absent."""

    name: str
    kind: Literal["text", "whole", "seconds"]
    low: int = 0
    high: int = MAX_TEXT
    required: bool = True
    may_be_empty: bool = False

    @property
    def expected(self) -> str:
        if self.kind == "text":
            return f"{'up to' if self.may_be_empty else '1 to'} {self.high} characters without commas or quotes"
        what = "a whole number" if self.kind == "whole" else "a number of seconds"
        return f"{what} from {self.low} to {self.high}" + (" or nothing" if self.may_be_empty else "")


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


# Reading


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes of a list, in file order."""
    frame = _checked(_load(path, NODE_COLUMNS), NODE_COLUMNS, path, unique="sn")
    return tuple(_node(row) for row in frame.iter_rows(named=True))


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
    frame = _checked_pods(_load(path, POD_COLUMNS), path)
    rows, shape_P = _distinct(frame, [name for name in _SHAPE_COLUMNS if name in frame.columns])
    arrival_P, duration_P, timed = _times(frame)
    gangs, gang_P = _gangs(frame)
    return Workload(
        names=frame["name"].to_list(),
        shapes=tuple(_shape(row) for row in frame[rows].iter_rows(named=True)),
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


def _distinct(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[IntArray, IntArray]:
    """First row of each distinct combination, in order of appearance, and for every row its combination."""
    import polars as pl

    first_P = frame.with_row_index("row").select(pl.col("row").first().over(keys)).to_series().to_numpy()
    rows, index_P = np.unique(first_P, return_inverse=True)
    return rows.astype(np.int64), index_P.astype(np.int64)


def _gangs(frame: pl.DataFrame) -> tuple[tuple[Gang, ...], IntArray]:
    if "gang" not in frame.columns or (frame["gang"] == "").all():
        return (), np.zeros(0, np.int64)
    rows, group_P = _distinct(frame, ["gang"])
    names, sizes = frame["gang"][rows].to_list(), np.bincount(group_P)
    gangs = tuple(Gang(name, int(size)) for name, size in zip(names, sizes, strict=True) if name)
    named = np.array([bool(name) for name in names])
    number = np.where(named, np.cumsum(named) - 1, -1)
    return gangs, number[group_P]


def _times(frame: pl.DataFrame) -> tuple[FloatArray, FloatArray, bool]:
    if "creation_time" not in frame.columns:
        return np.arange(len(frame), dtype=np.float64), np.full(len(frame), FOREVER), False
    lasted = (frame["deletion_time"] - _started(frame)).round(TIME_DECIMALS).fill_null(FOREVER)
    return frame["creation_time"].to_numpy().copy(), lasted.to_numpy().copy(), True


def _started(frame: pl.DataFrame) -> pl.Series:
    """When a pod began to run; a pod that never was scheduled (Pending) counts from its creation."""
    created = frame["creation_time"]
    return frame["scheduled_time"].fill_null(created) if "scheduled_time" in frame.columns else created


# Checking


def _checked_pods(table: pl.DataFrame, path: Path) -> pl.DataFrame:
    import polars as pl

    frame = _checked(table, POD_COLUMNS, path, unique="name")
    gpu_milli, num_gpu = pl.col("gpu_milli"), pl.col("num_gpu")
    frame = frame.with_columns(pl.when(num_gpu == 0).then(0).otherwise(gpu_milli).alias("gpu_milli"))
    _refuse(
        (frame["num_gpu"] > 0) & (frame["gpu_milli"] == 0),
        InputError("asks for GPUs but for no part of them", file=path, field="gpu_milli", expected="1 to 1000"),
    )
    _check_times(frame, path)
    return frame


def _check_times(frame: pl.DataFrame, path: Path) -> None:
    given = [name for name in ("creation_time", "deletion_time", "scheduled_time") if name in frame.columns]
    if not given:
        return
    for name in ("creation_time", "deletion_time"):
        if name not in given:
            raise InputError(f"column is missing beside {given[0]!r}", file=path, row=1, field=name)
    created, deleted, started = frame["creation_time"], frame["deletion_time"], _started(frame)
    for late, early, field in (
        (deleted, created, "deletion_time"),
        (started, created, "scheduled_time"),
        (deleted, started, "deletion_time"),
    ):
        other = "scheduled_time" if early is started else "creation_time"
        wrong = InputError(f"lies before {other}", file=path, field=field, expected=f"at least {other}")
        _refuse((late < early).fill_null(value=False), wrong)


def _checked(table: pl.DataFrame, columns: Iterable[Column], path: Path, *, unique: str) -> pl.DataFrame:
    """The table with typed columns: no bad value, no repeated name, at least one row."""
    import polars as pl

    if table.is_empty():
        raise InputError("has a header and no rows", file=path, expected="at least one row")
    known = [column for column in columns if column.name in table.columns]
    frame = pl.DataFrame([_typed(table[column.name], column, path) for column in known])
    names = frame[unique]
    repeated = names.is_duplicated() & ~names.is_first_distinct()
    _refuse(repeated, InputError("the name is used twice", file=path, field=unique, expected="distinct names"))
    return frame


def _typed(text: pl.Series, column: Column, path: Path) -> pl.Series:
    import polars as pl

    empty = text == ""
    if column.kind == "text":
        typed = text
        bad = (text.str.len_chars() > column.high) | text.str.contains(_SEPARATORS)
    else:
        typed = text.cast(pl.Int64 if column.kind == "whole" else pl.Float64, strict=False)
        bad = ~typed.is_between(column.low, column.high).fill_null(value=False) & ~empty
    bad = bad if column.may_be_empty else bad | empty
    if bad.any():
        value = text[int(bad.arg_true()[0])]
        problem = f"bad value {value[:_SHOWN]!r}" if value else "the value is empty"
        _refuse(bad, InputError(problem, file=path, field=column.name, expected=column.expected))
    return typed.fill_null(0) if column.name == "priority" else typed


def _refuse(bad: pl.Series, error: InputError) -> None:
    """Raise `error` for the first row that is bad, with that row's number in the file."""
    if bad.any():
        row = int(bad.arg_true()[0]) + 2
        raise InputError(error.problem, file=error.file, row=row, field=error.field, expected=error.expected)


def _check_header(names: Sequence[str], columns: Sequence[Column], path: Path) -> None:
    known = [column.name for column in columns]
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name[:_SHOWN], known, file=path, row=1)
        if names.count(name) > 1:
            raise InputError("the column appears twice", file=path, row=1, field=name)
    for column in columns:
        if column.required and column.name not in names:
            raise InputError("the column is missing", file=path, row=1, field=column.name, expected=",".join(known))


# From bytes to a table of text


def _load(path: Path, columns: Sequence[Column]) -> pl.DataFrame:
    """All values as text, "" where there is none; the header is checked, the values are not."""
    import polars as pl

    path = Path(path)
    data = _one_row_per_line(_bounded_bytes(path), path)
    header = data.partition(b"\n")[0].decode().split(",")
    _check_header(header, columns, path)
    _check_widths(data, len(header), path)
    try:
        return pl.read_csv(data, infer_schema=False, quote_char=None).select(pl.all().fill_null(""))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot be read as a table: {error}", file=path) from error


def _bounded_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            problem = "is not a file" if path.exists() else "there is no such file"
            raise InputError(problem, file=path)
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError("the file is too large", file=path, expected=f"at most {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(f"cannot be read: {error}", file=path) from error


def _one_row_per_line(data: bytes, path: Path) -> bytes:
    """UTF-8 without mark, carriage returns, quotes or control characters, so that lines are rows."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", file=path, row=row, expected="a CSV file") from error
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n")
    if not data:
        raise InputError("the file is empty", file=path, expected="a header and rows")
    buffer = np.frombuffer(data, np.uint8)
    control = (buffer < _SPACE) & (buffer != _NEWLINE)
    if control.any():
        row = data.count(b"\n", 0, int(control.argmax())) + 1
        raise InputError("has control characters", file=path, row=row, expected="comma-separated text")
    return _without_quotes(data, path) if b'"' in data else data


def _without_quotes(data: bytes, path: Path) -> bytes:
    """Some tools quote every text. No value needs it: one that holds a comma shows up as a row too wide."""
    lines = []
    for row, line in enumerate(data.decode().split("\n"), start=1):
        try:
            lines.append(",".join(next(csv.reader([line], strict=True), [])))
        except csv.Error as error:
            raise InputError(f"bad quotes: {error}", file=path, row=row) from error
    return "\n".join(lines).encode()


def _check_widths(data: bytes, width: int, path: Path) -> None:
    buffer = np.frombuffer(data, np.uint8)
    starts = np.append(0, np.flatnonzero(buffer == _NEWLINE) + 1)
    fields = np.add.reduceat(buffer == _COMMA, starts, dtype=np.int64) + 1
    wrong = np.flatnonzero(fields != width)
    if len(wrong):
        problem = f"the row has {fields[wrong[0]]} fields"
        raise InputError(problem, file=path, row=int(wrong[0]) + 1, expected=f"{width} as in the header")


# Writing


def write_nodes(path: Path, nodes: Sequence[Node], *, lossy: bool = False) -> None:
    """Write a node list; what the format cannot hold is refused, or left out if `lossy`."""
    import polars as pl

    for row, node in enumerate(nodes, start=2):
        if not lossy and (node.extended or _other_labels(node) or node.taints or node.memory_bytes % MIB):
            problem = f"node {node.name!r} has other resources, labels, taints or a memory that is not whole MiB"
            expected = "a node of cpu, MiB and GPUs, with no labels but zone, rack and server, or --lossy"
            raise InputError(problem, file=path, row=row, expected=expected)
    names = [column.name for column in NODE_COLUMNS]
    table = pl.DataFrame([_node_row(node) for node in nodes], schema=names, orient="row")
    shown = [column.name for column in NODE_COLUMNS if column.required]
    shown += ["pods"] if any(node.pods != PODS_PER_NODE for node in nodes) else []
    shown += [name for name, key in LABEL_COLUMNS.items() if any(key in dict(node.labels) for node in nodes)]
    text = table.select(pl.col(shown).cast(pl.String))
    _write(path, text, _checked(text, NODE_COLUMNS, path, unique="sn"))


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
    import polars as pl

    if not lossy:
        _refuse_loss(workload, path)
    shape_P = pl.Series(workload.shape_P)
    shapes = pl.DataFrame([_shape_row(shape) for shape in workload.shapes], schema=list(_SHAPE_COLUMNS), orient="row")
    columns = [pl.Series("name", list(workload.names), pl.String)]
    columns += [shapes[name].gather(shape_P) for name in _SHAPE_COLUMNS[:4]]
    if any(shape.gpu_models for shape in workload.shapes):
        columns.append(shapes["gpu_spec"].gather(shape_P))
    if workload.timed:
        columns += _time_columns(workload)
    if any(shape.priority for shape in workload.shapes):
        columns.append(shapes["priority"].gather(shape_P))
    if workload.gangs:
        names = pl.Series("gang", [*(gang.name for gang in workload.gangs), ""])
        columns.append(names.gather(pl.Series(workload.gang_P % len(names))))  # -1, no gang, is the last one
    text = pl.DataFrame(columns).select(pl.all().cast(pl.String).fill_null(""))
    _write(path, text, _checked_pods(text, path))


def _shape_row(shape: PodShape) -> tuple[int | str, ...]:
    memory_mib = -(-shape.memory_bytes // MIB)
    return (shape.cpu_milli, memory_mib, shape.gpu_count, shape.gpu_milli, shape.gpu_models, shape.priority)


def _time_columns(workload: Workload) -> list[pl.Series]:
    import polars as pl

    arrival_P, end_P = workload.arrival_P, workload.arrival_P + workload.duration_P
    times = {"creation_time": arrival_P, "deletion_time": end_P, "scheduled_time": arrival_P}
    series = [pl.Series(name, time_P).replace(FOREVER, None).round(TIME_DECIMALS) for name, time_P in times.items()]
    return [time.cast(pl.Int64) if (time.drop_nulls() % 1 == 0).all() else time for time in series]


def _refuse_loss(workload: Workload, path: Path) -> None:
    for number, shape in enumerate(workload.shapes):
        if shape.extended or shape.constraints != ANYWHERE or shape.gpu_devices or shape.memory_bytes % MIB:
            row = int((workload.shape_P == number).argmax())
            problem = (
                f"pod {workload.names[row]!r} has other resources, constraints, devices of its own or a memory that is "
                "not whole MiB"
            )
            raise InputError(problem, file=path, row=row + 2, expected="a pod of cpu, MiB and GPUs, or --lossy")


def _write(path: Path, text: pl.DataFrame, typed: pl.DataFrame) -> None:
    buffer = io.BytesIO()
    if Path(path).suffix == ".parquet":
        typed.write_parquet(buffer)
    else:
        text.write_csv(buffer, quote_style="never")
    replace_file(Path(path), buffer.getvalue())
