"""How an overview of a cluster is sorted, filtered and written; shared by the live table and by plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pilotage.lab.overview import Decision, NodeRow, Overview, Use
from pilotage.workloads.topology import natural_order

COLUMNS = ("node", "state", "CPU", "memory GiB", "GPU", "pods", "model")
FULLEST_FIRST = ("CPU", "memory GiB", "GPU", "pods")
WARM, HOT = 0.6, 0.9  # shares in use from which a colour says so

_KEYS: dict[str, Callable[[NodeRow], Any]] = {
    "node": lambda row: natural_order(row.name),
    "state": lambda row: row.state,
    "CPU": lambda row: row.cpu.share,
    "memory GiB": lambda row: row.memory.share,
    "GPU": lambda row: (row.gpu.capacity > 0, row.gpu.share),
    "pods": lambda row: row.pods.used,
    "model": lambda row: row.model,
}


def chosen(overview: Overview, text: str, column: str, *, reverse: bool) -> list[NodeRow]:
    """Nodes whose name, state or model holds the text, in the order of a column; equal ones by name."""
    wanted = text.strip().lower()
    rows = [row for row in overview.nodes if wanted in f"{row.name} {row.state} {row.model}".lower()]
    return sorted(rows, key=_KEYS[column], reverse=reverse)


def cells(row: NodeRow) -> tuple[str, ...]:
    return (row.name, row.state, *(use_text(use) for use in (row.cpu, row.memory, row.gpu, row.pods)), row.model or "-")


def use_text(use: Use) -> str:
    if not use.capacity and not use.used:
        return "-"
    return f"{_number(use.used)}/{_number(use.capacity)} {100 * use.share:4.0f}%"


def colour(use: Use) -> str:
    """Of a share in use; more than there is stands out."""
    if use.used > use.capacity:
        return "bold white on red"
    if not use.used:
        return "dim"
    return "red" if use.share >= HOT else "yellow" if use.share >= WARM else "green"


def summary(overview: Overview) -> list[str]:
    """The lines above the table."""
    ready = sum(row.state == "ready" for row in overview.nodes)
    totals = [f"{name} {use_text(overview.total(what))}" for name, what in _TOTALS]  # type: ignore[arg-type]
    waiting = ", ".join(f"{name or 'nobody'} {count}" for name, count in overview.pending.items())
    return [
        f"nodes {len(overview.nodes)}, ready {ready}   " + "   ".join(totals),
        f"balance: variance of CPU shares {overview.cpu_variance:.4f}   pending {sum(overview.pending.values())}"
        + (f" ({waiting})" if waiting else ""),
    ]


_TOTALS = (("CPU", "cpu"), ("memory GiB", "memory"), ("GPU", "gpu"), ("pods", "pods"))


def decision_text(decision: Decision) -> str:
    what = f"-> {decision.node}" if decision.node else "waits:"
    return f"{decision.moment:%H:%M:%S} {decision.scheduler} {decision.pod} {what} {decision.note}".rstrip()


def plain(overview: Overview, rows: Sequence[NodeRow], decisions: int = 10) -> str:
    """All of it as text, for a file or a pipe."""
    table = [COLUMNS, *(cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]
    last = [decision_text(decision) for decision in overview.decisions[:decisions]]
    return "\n".join([*summary(overview), "", *lines, *(["", "last decisions:", *last] if last else [])])


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
