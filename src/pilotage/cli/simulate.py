"""`pilotage simulate`: one run in detail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import (
    MAX_SEED,
    ArrivalsOption,
    JsonOption,
    LoadOption,
    MtbfOption,
    MttrOption,
    NodesOption,
    PodsOption,
    ProtocolOption,
    TraceOption,
    check_place,
    console,
    print_json,
    results,
    trace_source,
    warn_of_gangs,
)
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.sim.results import RunResult
    from pilotage.sim.run import Run
    from pilotage.workloads.trace import Trace

EXAMPLE = "Example: pilotage simulate --trace openb-like --policy fgd --seed 42 --explain pod-000255"


def simulate(
    *,
    nodes: NodesOption = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    policy: Annotated[str, typer.Option("--policy", metavar="POLICY", help="As in compare.")] = "fgd",
    seed: Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED)] = 42,
    load: LoadOption = None,
    protocol: ProtocolOption = "openb",
    arrivals: ArrivalsOption = None,
    mtbf: MtbfOption = None,
    mttr: MttrOption = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="POD", help="Explain the decision about this pod and end.")
    ] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="With --explain: candidates to show.  [default: 10]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write decisions.parquet and meters.parquet there.")
    ] = None,
    offline: Annotated[
        Path | None,
        typer.Option("--export-offline", metavar="DIR", help="Write every decision there to learn from, and end."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one policy on one trace: figures, every decision as Parquet, or one decision explained."""
    from pilotage.policies.registry import find_policy
    from pilotage.sim.protocols import openb_run, timed_run
    from pilotage.sim.results import openb_result, timed_result
    from pilotage.sim.scenario import checked_loads, checked_timing

    if explain is None and top is not None:
        raise InputError("has no effect without --explain", field="--top")
    if explain is not None and out is not None:
        raise InputError("has no effect with --explain, which stops at one pod", field="--out")
    if offline is not None and (explain is not None or out is not None or protocol != "openb"):
        problem = "stands alone: the run goes by decision, in the OpenB protocol"
        raise InputError(problem, field="--export-offline", expected="neither --explain nor --out nor timed beside it")
    check_place(out)
    check_place(None if offline is None else offline.parent)
    where = trace_source(nodes, pods, trace)
    warn_of_gangs([where], protocol)
    source, chosen = where.load(), find_policy(policy)
    loads = checked_loads(None if load is None else (load,), protocol, [source])
    timing = checked_timing(protocol, loads, arrivals, mtbf, mttr)
    if protocol == "openb":
        run = openb_run(source, chosen, seed, loads[0], reasons=True)
    else:
        run = timed_run(source, chosen, seed, timing, reasons=True)
    if explain is not None:
        _explain(run, explain, top or 10, as_json)
        return
    if offline is not None:
        _export(run, source, seed, loads[0], offline, as_json)
        return
    with console().status("running"):
        run.advance()
    measure = openb_result if protocol == "openb" else timed_result
    result = measure(run, source.name, chosen.name, seed, loads[0])
    if out is not None:
        _write(run, out)
    if as_json:
        print_json(result.figures() | {"failures": _failures(run)})
    else:
        _print_result(result, _failures(run))


def _explain(run: Run, pod: str, top: int, as_json: bool) -> None:
    from pilotage.report.tables import explanation_table
    from pilotage.sim.explaining import explain_pod

    explanation = explain_pod(run, pod)
    if as_json:
        print_json(explanation.as_dict())
    else:
        results().print(explanation_table(explanation, top))


def _export(run: Run, trace: Trace, seed: int, load: float, directory: Path, as_json: bool) -> None:
    from pilotage.sim.offline import write_offline

    with console().status("deciding"):
        rows = write_offline(run, trace, seed, load, directory)
    if as_json:
        print_json({"trace": trace.name, "policy": run.policy.name, "seed": seed, "decisions": rows})
    else:
        console().print(f"wrote {directory}: {rows} decisions", soft_wrap=True)


def _write(run: Run, directory: Path) -> None:
    from pilotage.sim.details import decisions_table, meters_table
    from pilotage.workloads.files import make_directory, replace_file
    from pilotage.workloads.tables import parquet

    make_directory(directory)
    for name, table in (("decisions.parquet", decisions_table(run)), ("meters.parquet", meters_table(run))):
        replace_file(directory / name, parquet(table))
        rows = len(next(iter(table.values())))
        console().print(f"wrote {directory / name}: {rows} rows", soft_wrap=True)


def _failures(run: Run) -> dict[str, dict[str, int]]:
    """Pods that were not placed, by kind of pod and reason."""
    from pilotage.sim.details import reason_text

    counts: dict[str, dict[str, int]] = {}
    for pod in (run.scene.progress.node_P < 0).nonzero()[0].tolist():
        by_reason = counts.setdefault(run.workload.shapes[run.workload.shape_P[pod]].kind, {})
        reason = reason_text(run, pod)
        by_reason[reason] = by_reason.get(reason, 0) + 1
    return counts


def _print_result(result: RunResult, failures: dict[str, dict[str, int]]) -> None:
    from rich.table import Table

    table = Table("figure", "value", title=f"{result.policy} on {result.trace}, seed {result.seed}")
    for name, value in result.figures().items():
        if value is not None and name not in ("trace", "policy", "seed"):
            table.add_row(name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value))
    results().print(table)
    if failures:
        refused = Table("kind of pod", "last obstacle", "pods", title="Not placed")
        for kind, reasons in failures.items():
            for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
                refused.add_row(kind, reason, str(count))
        results().print(refused)
