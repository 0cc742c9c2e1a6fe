"""A trace is a cluster and the pods that come to it: where it is read from, how it is identified, how it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FOREVER, Workload
from pilotage.workloads import openb

TABLE_SUFFIX: Final = ".csv"
TABLE_SUFFIXES: Final = (TABLE_SUFFIX, openb.PARQUET)
MANIFEST_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Trace:
    """Nodes and pods with a name for tables and a digest that is the same wherever the same content lies."""

    name: str
    nodes: tuple[Node, ...] = field(compare=False)  # the digest stands for the content
    workload: Workload = field(compare=False)
    digest: str

    @classmethod
    def of(cls, name: str, nodes: Sequence[Node], workload: Workload) -> Trace:
        return cls(name, tuple(nodes), workload, digest(nodes, workload))


# Identity


def digest(nodes: Sequence[Node], workload: Workload) -> str:
    """sha256 of what the trace says, independent of files, formats and the order in which shapes were found."""
    content = hashlib.sha256(b"pilotage trace 1\n")
    for node in nodes:
        content.update(_canonical_bytes(node) + b"\n")
    content.update(json.dumps(list(workload.names)).encode())
    content.update(_by_content(workload.shapes, workload.shape_P))
    # Times that do not come from the source are a convention of its reader, not content.
    for times_P in (workload.arrival_P, workload.duration_P) if workload.timed else ():
        content.update(np.ascontiguousarray(times_P, "<f8").tobytes())
    content.update(_by_content(workload.gangs, workload.gang_P))
    content.update(b"timed" if workload.timed else b"untimed")
    return content.hexdigest()


def _by_content(items: Sequence[object], index_P: npt.NDArray[np.int64]) -> bytes:
    """The items that are used, in an order of their own, and which of them each pod has (-1 = none)."""
    written = [_canonical_bytes(item) for item in items]
    used = sorted({written[i] for i in np.unique(index_P) if i >= 0})
    place = {text: number for number, text in enumerate(used)}
    renumber = np.array([*(place.get(text, -1) for text in written), -1], "<i8")  # the last one is for -1
    return b"\n".join(used) + b"\n" + renumber[index_P].tobytes()


def _canonical_bytes(item: object) -> bytes:
    return json.dumps(_canonical(item), sort_keys=True).encode()


def _canonical(item: object) -> object:
    """Plain data without what is at its default, so that a new optional field changes no digest."""
    if isinstance(item, tuple):
        return [_canonical(entry) for entry in item]
    if not is_dataclass(item):
        return item
    values = {entry.name: (getattr(item, entry.name), entry.default) for entry in fields(item)}
    return {name: _canonical(value) for name, (value, default) in values.items() if value != default}


# Reading


def load_trace(nodes: Path | None = None, pods: Path | None = None, name: str | None = None, seed: int = 0) -> Trace:
    """A trace from files (tables or manifests), a shipped one by name, or one with a part replaced by a file."""
    if name is not None and nodes is not None and pods is not None:
        raise InputError(f"nothing of the trace {name!r} is used beside both files", expected="only one of them")
    cluster, workload = _shipped(name, seed) if name is not None else ((), None)
    if nodes is not None:
        cluster, workload = _read_nodes(nodes, workload, alone=pods is None and name is None)
    if pods is not None:
        own_nodes, workload = _read_pods(pods)
        cluster = own_nodes if nodes is None and own_nodes else cluster
    if not cluster:
        raise InputError("there are no nodes", file=nodes or pods, expected="--nodes FILE, or --trace NAME")
    if workload is None or not len(workload):
        raise InputError("there are no pods", file=pods or nodes, expected="--pods FILE, or --trace NAME")
    source = pods or (nodes if name is None else None)
    return Trace.of(source.resolve().stem if source is not None else str(name), cluster, workload)


def load_nodes(path: Path | None = None, name: str | None = None) -> tuple[Node, ...]:
    """The nodes of a file, or of a shipped trace."""
    nodes = _shipped(str(name), 0)[0] if path is None else _read_nodes(path, None, alone=False)[0]
    if not nodes:
        raise InputError("there are no nodes", file=path, expected="a node list or Node manifests")
    return nodes


def load_pods(path: Path | None = None, name: str | None = None) -> Workload:
    """The pods of a file, or of a shipped trace."""
    if path is not None and name is not None:
        raise InputError("two traces given", expected="--pods FILE or --trace NAME, one at a time")
    workload = _shipped(str(name), 0)[1] if path is None else _read_pods(path)[1]
    if not len(workload):
        raise InputError("there are no pods", file=path, expected="a pod list or manifests")
    return workload


def _shipped(name: str, seed: int) -> tuple[tuple[Node, ...], Workload]:
    from pilotage.workloads.families import trace_by_name

    return trace_by_name(name, seed)


def _read_nodes(path: Path, workload: Workload | None, *, alone: bool) -> tuple[tuple[Node, ...], Workload | None]:
    """The nodes of a file; manifests given alone may bring their pods as well."""
    if _is_table(path):
        return openb.read_nodes(path), workload
    found, own = _read_manifests(path)
    return found, own if alone else workload


def _read_pods(path: Path) -> tuple[tuple[Node, ...], Workload]:
    return ((), openb.read_pods(path)) if _is_table(path) else _read_manifests(path)


def _is_table(path: Path) -> bool:
    if path.is_dir() or path.suffix in MANIFEST_SUFFIXES:
        return False
    if path.suffix not in TABLE_SUFFIXES and path.exists():
        known = (*TABLE_SUFFIXES, *MANIFEST_SUFFIXES)
        raise UnknownNameError("kind of file", path.suffix, known, file=path)
    return True


def _read_manifests(path: Path) -> tuple[tuple[Node, ...], Workload]:
    from pilotage.workloads.manifests import read_manifests

    nodes, workload = read_manifests(path)
    return nodes, workload


# Writing


def write_trace(trace: Trace, directory: Path, to: str, *, lossy: bool = False) -> list[Path]:
    """Write nodes and pods as `openb` (CSV), `kubernetes` (YAML), `parquet` or `simon`."""
    if to not in WRITERS:
        raise UnknownNameError("format", to, WRITERS)
    return WRITERS[to](trace, directory, lossy)


def _write_tables(suffix: str) -> Callable[[Trace, Path, bool], list[Path]]:
    def write(trace: Trace, directory: Path, lossy: bool) -> list[Path]:
        pods_stem = trace.name if trace.name != "nodes" else "pods"
        nodes, pods = directory / f"nodes{suffix}", directory / f"{pods_stem}{suffix}"
        openb.write_nodes(nodes, trace.nodes, lossy=lossy)
        openb.write_pods(pods, trace.workload, lossy=lossy)
        return [nodes, pods]

    return write


def _write_manifests(trace: Trace, directory: Path, lossy: bool) -> list[Path]:
    from pilotage.workloads.manifest_writing import write_manifests

    path, workload = directory / f"{trace.name}.yaml", trace.workload
    if not workload.timed:  # a written arrival would be taken for one of the source
        never = np.full(len(workload), FOREVER)
        workload = replace(workload, arrival_P=np.zeros(len(workload)), duration_P=never)
    write_manifests(path, trace.nodes, workload)
    return [path]


def _write_simon(trace: Trace, directory: Path, lossy: bool) -> list[Path]:
    from pilotage.workloads.simon_writing import write_simon

    return write_simon(trace, directory, lossy)


WRITERS: Final[dict[str, Callable[[Trace, Path, bool], list[Path]]]] = {
    "openb": _write_tables(".csv"),
    "parquet": _write_tables(".parquet"),
    "kubernetes": _write_manifests,
    "simon": _write_simon,
}
