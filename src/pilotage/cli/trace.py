"""`pilotage trace`: look at a trace before running it, turn it into another format, make one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli import topology
from pilotage.cli.options import (
    MAX_SEED,
    JsonOption,
    NodesOption,
    PodsOption,
    TraceOption,
    console,
    print_json,
    results,
)

if TYPE_CHECKING:
    from rich.table import Table

    from pilotage.workloads.check import Finding
    from pilotage.workloads.describe import Description
    from pilotage.workloads.trace import Trace

    Writer = Callable[[Trace, Path, bool], list[Path]]

app = typer.Typer(name="trace", help="Check, describe, convert and generate traces.", no_args_is_help=True)
app.command(epilog=topology.EXAMPLE)(topology.topology)

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go; made if missing.")]


@app.command(epilog="Example: pilotage trace check --nodes nodes.csv --pods pods.csv")
def check(
    *,
    nodes: NodesOption = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    as_json: JsonOption = False,
    codes: Annotated[bool, typer.Option("--codes", help="List all codes with their meaning and end.")] = False,
) -> None:
    """Findings about a trace, each with a code. Exit code 1 if one of them is an error."""
    from pilotage.workloads import check as checking

    if codes:
        _print_codes(as_json=as_json)
        return
    loaded = _load(nodes, pods, trace)
    findings = checking.check(loaded.nodes, loaded.workload)
    if as_json:
        print_json({"trace": loaded.name, "digest": loaded.digest, "findings": [f.as_dict() for f in findings]})
    else:
        _print_findings(loaded, findings)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


@app.command(epilog="Example: pilotage trace describe --trace openb-like --json")
def describe(
    *, nodes: NodesOption = None, pods: PodsOption = None, trace: TraceOption = None, as_json: JsonOption = False
) -> None:
    """The figures of a trace: pod classes, demand against capacity, shapes, nodes, times."""
    from pilotage.workloads import describe as describing

    description = describing.describe(_load(nodes, pods, trace))
    if as_json:
        print_json(description.as_dict())
    else:
        _print_description(description)


@app.command(epilog="Example: pilotage trace convert --pods cluster.yaml --to openb --out converted")
def convert(
    *,
    out: OutOption,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="openb, kubernetes, simon, or parquet.")],
    nodes: NodesOption = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    as_json: JsonOption = False,
    lossy: Annotated[bool, typer.Option("--lossy", help="Leave out what the format cannot hold.")] = False,
    load: Annotated[
        float | None, typer.Option("--load", help="simon: GPU asked for / capacity to tune to.  [default: 1.3]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=MAX_SEED, help="simon: seed of the order.  [default: 42]")
    ] = None,
) -> None:
    """Write a trace in another format. What the format cannot hold is an error unless --lossy."""
    from pilotage.model.errors import InputError, UnknownNameError
    from pilotage.workloads.trace import WRITERS

    if to not in WRITERS:
        raise UnknownNameError("format", to, WRITERS, field="--to")
    if to != "simon" and (load is not None or seed is not None):
        field = "--load" if load is not None else "--seed"
        raise InputError("has no effect on files without a configuration", field=field, expected="--to simon")
    writer = _simon_writer(load, seed) if to == "simon" else WRITERS[to]
    _write(_load(nodes, pods, trace), out, writer, lossy=lossy, as_json=as_json)


def _simon_writer(load: float | None, seed: int | None) -> Writer:
    from functools import partial

    from pilotage.model.errors import InputError
    from pilotage.workloads.simon import MAX_RATIO
    from pilotage.workloads.simon_writing import LOAD, SEED, write_simon

    ratio = LOAD if load is None else load
    if not 0 <= ratio <= MAX_RATIO:
        raise InputError(f"{load}", field="--load", expected=f"a number from 0 to {MAX_RATIO:g}, such as 1.3")
    return partial(write_simon, load=ratio, seed=SEED if seed is None else seed)


@app.command(epilog="Example: pilotage trace generate openb-like --out trace --pods 100000 --seed 7")
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped trace, e.g. openb-like-gpushare100.")],
    *,
    out: OutOption,
    pods: Annotated[int | None, typer.Option("--pods", metavar="N", help="Number of pods instead of its own.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same trace.")] = 0,
    nodes_scale: Annotated[float, typer.Option("--nodes-scale", metavar="X", help="1 = its own, e.g. 1,213.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Write a shipped trace as OpenB CSV files, with another number of pods or nodes if wanted."""
    from pilotage.workloads.families import trace_by_name
    from pilotage.workloads.trace import WRITERS, Trace

    made = Trace.of(name, *trace_by_name(name, seed, pods, nodes_scale))
    _write(made, out, WRITERS["openb"], lossy=False, as_json=as_json)


def _load(nodes: Path | None, pods: Path | None, name: str | None) -> Trace:
    from pilotage.model.errors import InputError
    from pilotage.workloads.trace import load_trace

    if nodes is None and pods is None and name is None:
        raise InputError("no trace was given", expected="--nodes FILE --pods FILE, or --trace NAME")
    return load_trace(nodes, pods, name)


def _write(trace: Trace, out: Path, write: Writer, *, lossy: bool, as_json: bool) -> None:
    with _staged(out) as stage:
        written = [out / path.relative_to(stage) for path in write(trace, stage, lossy)]
    if as_json:
        result = {"nodes": len(trace.nodes), "pods": len(trace.workload), "files": [str(path) for path in written]}
        print_json({"trace": trace.name, "digest": trace.digest, **result})
    else:
        console().print(f"wrote {len(trace.nodes)} nodes and {len(trace.workload)} pods:", *written, soft_wrap=True)


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A directory beside `out`; its files are moved there only when all of them are written."""
    from pilotage.model.errors import InputError

    try:
        out.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(dir=out, prefix=".partial-"))
    except OSError as error:
        raise InputError(f"cannot be written to: {error.strerror}", file=out, expected="a directory") from error
    try:
        yield stage
        _move_files(stage, out)
    except InputError as error:  # about a file that nobody will find: name the one that was meant
        given = Path(str(error.file))
        place = out / (given.relative_to(stage) if given.is_relative_to(stage) else given.name)
        raise InputError(
            error.problem, file=place, row=error.row, field=error.field, expected=error.expected
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move_files(stage: Path, out: Path) -> None:
    """Below a directory that will be read as a whole there must be nothing else than what was written."""
    from pilotage.model.errors import InputError

    files = [path.relative_to(stage) for path in stage.rglob("*") if path.is_file()]
    for folder in {path.parent for path in files} - {Path()}:
        for other in sorted((out / folder).glob("*")):
            if folder / other.name not in files:
                raise InputError("is in the way", file=stage / folder / other.name, expected="a directory of its own")
    for path in files:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (stage / path).replace(out / path)


# Output: results to standard output, messages to standard error


def _print_table(*tables: Table) -> None:
    for table in tables:
        results().print(table)


def _print_codes(*, as_json: bool) -> None:
    from pilotage.workloads.check import CODES

    if as_json:
        print_json({code: entry._asdict() for code, entry in CODES.items()})
        return
    rows = [(code, entry.severity, entry.meaning, entry.advice) for code, entry in CODES.items()]
    _print_table(_table("Codes of findings", ["code", "severity", "meaning", "what to do"], rows))


def _print_findings(trace: Trace, findings: list[Finding]) -> None:
    rows = [(finding.code, finding.severity, finding.where, finding.message) for finding in findings]
    title = f"{trace.name}: {len(trace.nodes)} nodes, {len(trace.workload)} pods"
    _print_table(_table(title, ["code", "severity", "where", "finding"], rows))
    errors = sum(finding.severity == "error" for finding in findings)
    console().print(f"{errors} errors; meaning of the codes: pilotage trace check --codes")


def _print_description(figures: Description) -> None:
    demand = [
        (r.resource, f"{r.requested:,}", f"{r.capacity:,}", _number(r.percent), _number(r.offered_load_percent))
        for r in figures.resources
    ]
    classes = [
        (c.kind, f"{c.pods:,}", _number(c.pods_percent), _number(c.gpu_percent), _number(c.cpu_percent))
        for c in figures.classes
    ]
    shapes = [
        (f"{s.pods:,}", str(s.cpu_milli), str(s.memory_mib), f"{s.gpu_count} x {s.gpu_milli}", s.gpu_models)
        for s in figures.top_shapes
    ]
    models = [
        (m.model or "-", f"{m.nodes:,}", f"{m.gpus:,}", f"{m.cpu_milli:,}", f"{m.memory_mib:,}")
        for m in figures.node_models
    ]
    title = f"{figures.trace}: {figures.nodes:,} nodes, {figures.pods:,} pods, {figures.distinct_shapes} shapes"
    _print_table(
        _table(title, ["resource", "requested", "capacity", "%", "offered load %"], demand),
        _table("Pod classes", ["class", "pods", "% of pods", "% of GPU", "% of CPU"], classes),
        _table("Most common shapes", ["pods", "cpu milli", "memory MiB", "GPU", "models"], shapes),
        _table("Nodes by GPU model", ["model", "nodes", "GPUs", "cpu milli", "memory MiB"], models),
    )
    if figures.times is not None:
        times = asdict(figures.times).items()
        spans = [(name.replace("_", " "), f"{value:,.0f}" if value is not None else "-") for name, value in times]
        _print_table(_table("Times (seconds)", ["figure", "value"], spans))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(title: str, columns: list[str], rows: Sequence[tuple[str, ...]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # text, not markup: names come from outside
    return table
