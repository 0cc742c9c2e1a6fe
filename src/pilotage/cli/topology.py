"""`pilotage trace topology`: nodes get labels that say in which zone, rack and server they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, NodesOption, TraceOption, console, print_json

if TYPE_CHECKING:
    from pilotage.model.cluster import Node
    from pilotage.model.workload import Workload
    from pilotage.workloads.trace import Trace

EXAMPLE = "Example: pilotage trace topology --nodes nodes.csv --servers-per-rack 4 --out labelled"


def topology(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go; made if missing.")],
    nodes: NodesOption = None,
    trace: TraceOption = None,
    servers_per_rack: Annotated[
        int, typer.Option("--servers-per-rack", min=1, metavar="N", help="Nodes of a rack.")
    ] = 4,
    racks_per_zone: Annotated[int, typer.Option("--racks-per-zone", min=1, metavar="N", help="Racks of a zone.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Label nodes with zone, rack and server by the order of their names; written in the format they came in."""
    from pilotage.workloads.topology import labelled
    from pilotage.workloads.trace import Trace

    name, found, workload = _read(nodes, trace, out)
    made = Trace.of(name, labelled(found, servers_per_rack, racks_per_zone), workload)
    files = _write(made, nodes, out)
    racks, zones = len({(node.zone, node.rack) for node in made.nodes}), len({node.zone for node in made.nodes})
    if as_json:
        counts = {"nodes": len(made.nodes), "racks": racks, "zones": zones, "pods": len(workload)}
        print_json({"trace": name, "digest": made.digest, **counts, "files": [str(path) for path in files]})
    else:
        console().print(f"labelled {len(made.nodes)} nodes: {racks} racks in {zones} zones:", *files, soft_wrap=True)


def _read(nodes: Path | None, trace: str | None, out: Path) -> tuple[str, tuple[Node, ...], Workload]:
    """Name, nodes and pods; a table of nodes has no pods."""
    from pilotage.model.errors import InputError
    from pilotage.model.workload import Workload
    from pilotage.workloads import openb
    from pilotage.workloads.families import trace_by_name

    if (nodes is None) == (trace is None):
        problem = "no nodes were given" if nodes is None else "nodes were given twice"
        raise InputError(problem, expected="--nodes FILE, or --trace NAME")
    if nodes is None:
        return str(trace), *trace_by_name(str(trace))
    source = nodes.resolve()
    if out.resolve() in (source, source if source.is_dir() else source.parent):
        problem = "is where the nodes are read from; the new files would take their place or be read beside them"
        raise InputError(problem, file=out, field="--out", expected="another directory")
    if _is_table(nodes):
        return source.stem, openb.read_nodes(nodes), Workload.of(())
    return source.stem, *_read_manifests(nodes, out)


def _read_manifests(nodes: Path, out: Path) -> tuple[tuple[Node, ...], Workload]:
    """Without what lies below `out`: it was written here."""
    from pilotage.model.errors import InputError
    from pilotage.workloads.manifests import read_manifests

    inside = out.resolve().is_relative_to(nodes.resolve())
    found, workload = read_manifests(nodes, excluding=out if inside else None)
    if not found:
        raise InputError("there are no nodes", file=nodes, expected="at least one manifest of a Node")
    return found, workload


def _is_table(nodes: Path) -> bool:
    from pilotage.model.errors import UnknownNameError
    from pilotage.workloads.trace import MANIFEST_SUFFIXES, TABLE_SUFFIX

    known = (TABLE_SUFFIX, *MANIFEST_SUFFIXES)
    if nodes.is_file() and nodes.suffix not in known:
        raise UnknownNameError("kind of file", nodes.suffix, known, file=nodes)
    return nodes.suffix == TABLE_SUFFIX and not nodes.is_dir()


def _write(made: Trace, nodes: Path | None, out: Path) -> list[Path]:
    """The files, in the format of the input: a table of nodes keeps its name."""
    from pilotage.workloads import openb
    from pilotage.workloads.files import make_directory
    from pilotage.workloads.trace import write_trace

    make_directory(out)
    if nodes is not None and _is_table(nodes):
        openb.write_nodes(out / nodes.name, made.nodes)
        return [out / nodes.name]
    return write_trace(made, out, "openb" if nodes is None else "kubernetes")
