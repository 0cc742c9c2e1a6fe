"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from pilotage.sim.engines import Engine
    from pilotage.sim.specs import TraceSource

Protocol = Literal["openb", "timed"]

MAX_SEED = 10**18 - 1

NodesOption = Annotated[
    Path | None, typer.Option("--nodes", metavar="FILE", help="Nodes: OpenB CSV or Kubernetes manifests.")
]
PodsOption = Annotated[
    Path | None, typer.Option("--pods", metavar="FILE", help="Pods: OpenB CSV or Kubernetes manifests.")
]
ManyPodsOption = Annotated[
    list[Path] | None,
    typer.Option("--pods", metavar="FILE", help="Pods; repeatable, each file is a trace named by its stem."),
]
TraceOption = Annotated[str | None, typer.Option("--trace", metavar="NAME", help="A shipped trace, e.g. openb-like.")]
ManyTracesOption = Annotated[
    list[str] | None,
    typer.Option("--trace", metavar="NAME", help="A shipped trace, e.g. openb-like or varied-0..19; repeatable."),
]
SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="LIST", help="Seeds such as 42-46 or 1,5,9.  [default: 42-46]")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, max=1024, help="Processes.  [default: all cores, if worth it]")
]
ProtocolOption = Annotated[
    Protocol, typer.Option("--protocol", help="openb: arrivals only, as published. timed: arrivals and departures.")
]
_LOAD_HELP = (
    "openb: arrived GPU / capacity (default 1.3; 0 = the trace as it is, the default without GPU pods). "
    "timed: offered GPU time / capacity "
    "by resampled arrivals (default: the trace's own times)."
)
LoadOption = Annotated[float | None, typer.Option("--load", help=_LOAD_HELP)]
LoadsOption = Annotated[
    str | None, typer.Option("--load", metavar="LIST", help=f"One or several, as 0.9,1.3. {_LOAD_HELP}")
]
ArrivalsOption = Annotated[int | None, typer.Option("--arrivals", min=1, help="timed with --load: pods to resample.")]
MtbfOption = Annotated[
    float | None, typer.Option("--mtbf", min=0.001, help="timed: mean hours between failures of a node.")
]
MttrOption = Annotated[
    float | None, typer.Option("--mttr", min=0.001, help="timed: mean hours to repair.  [default: 1]")
]
WarmUpOption = Annotated[
    float | None,
    typer.Option("--warm-up", min=0, max=0.99, help="timed: share of arrivals not measured.  [default: 0.2]"),
]
ScenarioOption = Annotated[
    Path | None, typer.Option("--scenario", metavar="FILE", help="YAML file; options beside it win over it.")
]
OptionalProtocolOption = Annotated[
    Protocol | None,
    typer.Option("--protocol", help="openb: arrivals only, as published. timed: arrivals and departures."),
]
EngineOption = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="local: processes. ray: a Ray cluster.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="ray: of the cluster's head.  [default: own]")
]
ResultsOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write results and report.html there; finished runs are kept."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Run everything again, also what --out already holds.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output and nothing else there.")]


def check_place(out: Path | None, field: str = "--out") -> None:
    """Whether results can be written to `out`, before the work is done; makes nothing."""
    if out is None:
        return
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError("no directory that can be written to", file=nearest, field=field)


def engine_of(name: str, address: str | None, jobs: int | None) -> Engine:
    if name == "local":
        from pilotage.sim.engines import LocalEngine

        if address is not None:
            raise InputError("has no effect on processes of this machine", field="--address", expected="--engine ray")
        return LocalEngine(jobs)
    from pilotage.sim.ray_engine import RayEngine

    if address is not None and jobs is not None:
        problem = "a cluster has as many processes as it was started with"
        raise InputError(problem, field="--jobs", expected="--address without it")
    return RayEngine(address, jobs)


def warn_of_gangs(sources: Sequence[TraceSource], protocol: str) -> None:
    if protocol == "openb" and any(source.load().workload.gangs for source in sources):
        console().print("note: the OpenB protocol places the pods of gangs one by one; see --protocol timed")


def trace_source(nodes: Path | None, pods: Path | None, name: str | None) -> TraceSource:
    """The one trace of a command."""
    from pilotage.sim.scenario import distinct_traces, sources_of

    if pods is not None and name is not None:
        raise InputError("two traces given", field="--trace", expected="--pods or --trace, one at a time")
    sources = sources_of(nodes, [pods] if pods else None, [name] if name else None)
    if sources is None:
        raise InputError("no trace given", expected="--nodes FILE --pods FILE, or --trace openb-like")
    if len(sources) > 1:
        raise InputError(f"{name!r} names {len(sources)} traces", field="--trace", expected="one of them")
    return distinct_traces(sources)[0]


_WITHOUT_INFLUENCE = ("--jobs", "--out", "--engine", "--address")


def command_line() -> str:
    """The command for the record, without what has no influence on results: where it runs, where files go."""
    import shlex

    given = iter(sys.argv[1:])
    kept = []
    for word in given:
        if word in _WITHOUT_INFLUENCE:
            next(given, None)
        elif word != "--fresh" and not word.startswith(tuple(f"{name}=" for name in _WITHOUT_INFLUENCE)):
            kept.append(word)
    return shlex.join(["pilotage", *kept])


def console() -> Console:
    """For messages: standard error, so that standard output holds results only. Names from outside are no markup."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


def results() -> Console:
    """For tables on standard output."""
    from rich.console import Console

    return Console(highlight=False, markup=False)


def expect_alone(ctx: typer.Context, *allowed: str) -> None:
    """A run that goes on has its settings: another one given beside it would be without effect."""
    named = {"settings": "set", "as_json": "json"}  # parameters that are named unlike their option
    for name in ctx.params:
        source = ctx.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            field = "--" + named.get(name, name).replace("_", "-")
            raise InputError("has no effect with --resume", field=field, expected="--resume alone")


@contextmanager
def progress_bar(screen: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing in a log. Yields what is told (done, total)."""
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def training_progress(*, show: bool = True) -> Iterator[Callable[[int, int, float, float], None]]:
    """On a terminal: what is done, time left, and validation. Yields what is told (done, total, newest, best)."""
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    screen = console()
    score = TextColumn("validation {task.fields[newest]}, best {task.fields[best]}")
    columns = (*Progress.get_default_columns()[1:2], MofNCompleteColumn(), TimeRemainingColumn(), score)
    with Progress(*columns, console=screen, transient=True, disable=not (show and screen.is_terminal)) as bar:
        task = bar.add_task("training", total=None, newest="-", best="-")
        yield lambda done, total, newest, best: bar.update(
            task, completed=done, total=total, newest=f"{newest:.4g}", best=f"{best:.4g}"
        )


def print_json(content: object) -> None:
    sys.stdout.write(json.dumps(content, allow_nan=False) + "\n")
