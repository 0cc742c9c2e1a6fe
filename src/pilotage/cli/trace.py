"""`pilotage trace`: look at a trace before running it, turn it into another format, make one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, NodesOption, PodsOption, TraceOption, console, print_json, results

if TYPE_CHECKING:
    from rich.table import Table

    from pilotage.workloads.check import Finding
    from pilotage.workloads.describe import Description
    from pilotage.workloads.trace import Trace

app = typer.Typer(name="trace", help="Check, describe, convert and generate traces.", no_args_is_help=True)

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
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="openb, kubernetes, or parquet for analysis.")],
    nodes: NodesOption = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    as_json: JsonOption = False,
    lossy: Annotated[bool, typer.Option("--lossy", help="Leave out what the format cannot hold.")] = False,
) -> None:
    """Write a trace in another format. What the format cannot hold is an error unless --lossy."""
    from pilotage.model.errors import UnknownNameError
    from pilotage.workloads.trace import WRITERS

    if to not in WRITERS:
        raise UnknownNameError("format", to, WRITERS, field="--to")
    _write(_load(nodes, pods, trace), out, to, lossy=lossy, as_json=as_json)


@app.command(epilog="Example: pilotage trace generate openb-like --out trace --pods 100000 --seed 7")
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped trace, e.g. openb-like-gpushare100.")],
    *,
    out: OutOption,
    pods: Annotated[int | None, typer.Option("--pods", metavar="N", help="Number of pods instead of its own.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same trace.")] = 0,
    nodes_scale: Annotated[float, typer.Option("--nodes-scale", metavar="X", help="1 = 1,213 nodes.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Write a shipped trace as OpenB CSV files, with another number of pods or nodes if wanted."""
    from pilotage.model.errors import UnknownNameError
    from pilotage.workloads.generate import SHIPPED, Times, openb_like_nodes, openb_like_pods
    from pilotage.workloads.trace import Trace

    if name not in SHIPPED:
        raise UnknownNameError("trace", name, SHIPPED)
    model = SHIPPED[name]
    nodes = openb_like_nodes(nodes_scale)
    workload = openb_like_pods(model.pods if pods is None else pods, seed, model.mix, Times(nodes_scale=nodes_scale))
    _write(Trace.of(name, nodes, workload), out, "openb", lossy=False, as_json=as_json)


def _load(nodes: Path | None, pods: Path | None, name: str | None) -> Trace:
    from pilotage.model.errors import InputError
    from pilotage.workloads.trace import load_trace

    if nodes is None and pods is None and name is None:
        raise InputError("no trace was given", expected="--nodes FILE --pods FILE, or --trace NAME")
    return load_trace(nodes, pods, name)


def _write(trace: Trace, out: Path, to: str, *, lossy: bool, as_json: bool) -> None:
    from pilotage.workloads.trace import write_trace

    with _staged(out) as stage:
        written = [out / path.name for path in write_trace(trace, stage, to, lossy=lossy)]
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
        for path in stage.iterdir():
            path.replace(out / path.name)
    except InputError as error:  # about a file that nobody will find: name the one that was meant
        place = out / Path(str(error.file)).name
        raise InputError(
            error.problem, file=place, row=error.row, field=error.field, expected=error.expected
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


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
