"""A trace made smaller or larger: nodes or pods of its own, left out or repeated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import IntArray
from pilotage.workloads.trace import Trace

_STREAM = 0x51E  # nodes and pods are drawn apart from everything else


def resized(trace: Trace, nodes: float = 1.0, pods: float = 1.0) -> Trace:
    """The trace with `nodes` and `pods` times as many: whole copies, and a fixed random part for the rest.

    Copies of a node or pod have names of their own; pods keep their times, so a timed trace keeps its load per node
    when both factors are the same.
    """
    for name, factor in (("nodes", nodes), ("pods", pods)):
        if not 0 < factor <= 1000:
            raise InputError(f"{factor} times the {name}", expected="a factor above 0, at most 1000")
    if pods != 1.0 and trace.workload.gangs:
        raise InputError(f"the pods of trace {trace.name!r} form gangs", expected="a trace without gangs to resize")
    copies, node_rows = _rows(len(trace.nodes), nodes)
    made_nodes = [
        replace(trace.nodes[row], name=_named(trace.nodes[row].name, copy))
        for copy, row in zip(copies, node_rows, strict=True)
    ]
    pod_copies, pod_rows = _rows(len(trace.workload), pods)
    names = [_named(trace.workload.names[row], copy) for copy, row in zip(pod_copies, pod_rows, strict=True)]
    sizes = [f"{factor:g}x {what}" for factor, what in ((nodes, "nodes"), (pods, "pods")) if factor != 1.0]
    return Trace.of(" ".join([trace.name, *sizes]), made_nodes, trace.workload.take(pod_rows, names))


def _rows(count: int, factor: float) -> tuple[list[int], IntArray]:
    """Which rows make up `factor` x `count` of them, and of each the number of its copy."""
    whole, rest = divmod(max(1, round(count * factor)), count)
    random = np.random.Generator(np.random.PCG64([_STREAM, count]))
    drawn = np.sort(random.permutation(count)[:rest])
    rows = np.concatenate([np.tile(np.arange(count), whole), drawn]).astype(np.int64)
    return [copy for copy in range(whole) for _ in range(count)] + [whole] * rest, rows


def _named(name: str, copy: int) -> str:
    return name if copy == 0 else f"{name}-copy-{copy}"
