"""The outcome of `pilotage apply` for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from pilotage.model.workload import MIB

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.model.workload import PodShape
    from pilotage.sim.applying import Applied
    from pilotage.sim.cluster_analysis import Analysis, Ratio

MOST_SHAPES = 20  # of failed pods


def applied_report(applied: Applied) -> RenderableType:
    """The figures of each step, then who found no place."""
    parts: list[RenderableType] = [analysis_table(analysis) for analysis in applied.analyses]
    if applied.failures:
        parts.append(failures_table(applied))
    return Group(*parts)


def verdict(applied: Applied) -> str:
    failed = len(applied.failures)
    return f"{failed} unscheduled pods" if failed else "Success"


def analysis_table(analysis: Analysis) -> Table:
    table = Table(title=f"Cluster analysis ({analysis.tag})", title_justify="left")
    table.box = SIMPLE_HEAD
    for name in ("figure", "%"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    table.add_column("amount", justify="right")
    for name, ratio, unit in (
        ("CPU requested", analysis.cpu, "milli"),
        ("memory requested", _in_mib(analysis.memory), "MiB"),
        ("GPUs in use", analysis.gpus, "devices"),
        ("GPU requested", analysis.gpu, "milli"),
    ):
        amount = f"{ratio.requested:,} of {ratio.allocatable:,} {unit}"
        table.add_row(name, f"{ratio.percent:.1f}", amount)
    table.add_section()
    for category, milli in analysis.amounts.items():
        table.add_row(category, _of(milli, analysis.idle), _thousands(milli))
    table.add_section()
    table.add_row("idle_gpu_milli", _of(analysis.idle, analysis.idle), _thousands(analysis.idle))
    table.add_row("frag_gpu_milli", _of(analysis.fragmented, analysis.idle), _thousands(analysis.fragmented))
    return table


def _in_mib(ratio: Ratio) -> Ratio:
    return type(ratio)(ratio.requested // MIB, ratio.allocatable // MIB)


def _of(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}"


def _thousands(milli: float) -> str:
    return f"{milli / 1000:.2f} x 10^3 milli"


def failures_table(applied: Applied) -> RenderableType:
    table = Table("pods", "CPU", "memory", "GPU", "GPU models", "reason", title="Unscheduled pods", box=SIMPLE_HEAD)
    table.title_justify = "left"
    shapes = applied.failed_shapes()
    for shape, reason, count in shapes[:MOST_SHAPES]:
        cells = (f"{shape.cpu_milli}m", f"{shape.memory_bytes // MIB}Mi", gpu_text(shape))
        table.add_row(str(count), *cells, shape.gpu_models, reason)
    left_out = len(shapes) - MOST_SHAPES
    return Group(table, f"... and {left_out} more shapes of pods") if left_out > 0 else table


def gpu_text(shape: PodShape) -> str:
    return f"{shape.gpu_count} x {shape.gpu_milli}" if shape.gpu_count else "-"
