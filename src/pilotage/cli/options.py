"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from pilotage.sim.pool import TraceSource
    from pilotage.sim.protocols import Timing

Protocol = Literal["openb", "timed"]

MAX_SEEDS = 10_000
MAX_SEED = 10**18 - 1
MAX_LOAD = 100.0

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
    list[str] | None, typer.Option("--trace", metavar="NAME", help="A shipped trace, e.g. openb-like; repeatable.")
]
SeedsOption = Annotated[str, typer.Option("--seeds", metavar="LIST", help="Seeds such as 42-46 or 1,5,9.")]
JobsOption = Annotated[int, typer.Option("--jobs", min=1, max=1024, help="Processes.  [default: all cores]")]
ProtocolOption = Annotated[
    Protocol, typer.Option("--protocol", help="openb: arrivals only, as published. timed: arrivals and departures.")
]
LoadOption = Annotated[
    float | None,
    typer.Option(
        "--load",
        help="openb: arrived GPU / capacity (default 1.3; 0 = the trace as it is). timed: offered GPU time / capacity "
        "by resampled arrivals (default: the trace's own times).",
    ),
]
ArrivalsOption = Annotated[int | None, typer.Option("--arrivals", min=1, help="timed with --load: pods to resample.")]
MtbfOption = Annotated[
    float | None, typer.Option("--mtbf", min=0.001, help="timed: mean hours between failures of a node.")
]
MttrOption = Annotated[
    float | None, typer.Option("--mttr", min=0.001, help="timed: mean hours to repair.  [default: 1]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output and nothing else there.")]


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds such as "42-46", "1,5,9" or both; each at most once."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*", part)
        if match is None:
            raise InputError(f"cannot read {part!r}", field="--seeds", expected="numbers such as 42-46 or 1,5,9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InputError(f"{part.strip()!r} runs backwards", field="--seeds", expected=f"{last}-{first}")
        if last - first >= MAX_SEEDS:
            raise InputError(f"{part.strip()!r} has too many seeds", field="--seeds", expected=f"at most {MAX_SEEDS}")
        seeds.extend(range(first, last + 1))
    if len(set(seeds)) < len(seeds):
        raise InputError("a seed is given twice", field="--seeds")
    return tuple(seeds)


def parse_policies(text: str) -> tuple[str, ...]:
    """Comma-separated policy texts, each one found and none twice."""
    from pilotage.policies.registry import find_policy

    texts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not texts:
        raise InputError("no policy given", field="--policies", expected="names such as fgd,best-fit")
    names = [find_policy(part).name for part in texts]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{name!r} is given twice", field="--policies")
    return texts


def checked_load(load: float | None, protocol: str) -> float | None:
    if load is None:
        return 1.3 if protocol == "openb" else None
    if not math.isfinite(load) or load < 0 or load > MAX_LOAD or (protocol == "timed" and load == 0):
        raise InputError(f"{load}", field="--load", expected=f"a number up to {MAX_LOAD:g}, such as 1.3")
    return load


def checked_timing(
    protocol: str,
    load: float | None,
    arrivals: int | None,
    mtbf: float | None,
    mttr: float | None,
    warm_up: float | None = None,
) -> Timing:
    """Settings of timed runs; refused where they would have no effect."""
    from pilotage.sim.protocols import Timing

    given = {"--arrivals": arrivals, "--mtbf": mtbf, "--mttr": mttr, "--warm-up": warm_up}
    for name, value in given.items():
        if protocol == "openb" and value is not None:
            raise InputError("has no effect on runs of the OpenB protocol", field=name, expected="--protocol timed")
    if arrivals is not None and load is None:
        raise InputError("has no effect on the trace's own times", field="--arrivals", expected="--load beside it")
    if mttr is not None and mtbf is None:
        raise InputError("has no effect where nodes never fail", field="--mttr", expected="--mtbf beside it")
    defaults = Timing()
    return Timing(
        load=load,
        arrivals=arrivals,
        warm_up=defaults.warm_up if warm_up is None else warm_up,
        mtbf_hours=mtbf,
        mttr_hours=defaults.mttr_hours if mttr is None else mttr,
    )


def check_place(out: Path | None) -> None:
    """Whether results can be written to `out`, before the work is done; makes nothing."""
    if out is None:
        return
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InputError("no directory that can be written to", file=nearest, field="--out")


def warn_of_gangs(sources: Sequence[TraceSource], protocol: str) -> None:
    if protocol == "openb" and any(source.load().workload.gangs for source in sources):
        console().print("note: the OpenB protocol places the pods of gangs one by one; see --protocol timed")


def trace_sources(
    nodes: Path | None, pods: Sequence[Path] | None, names: Sequence[str] | None
) -> tuple[TraceSource, ...]:
    """The traces of a command, every one loaded once so that errors come before any work."""
    from pilotage.sim.pool import TraceSource

    sources = [TraceSource(nodes, path) for path in pods or ()]
    sources += [TraceSource(nodes, name=name) for name in names or ()]
    if not sources and nodes is not None:
        sources = [TraceSource(nodes)]  # manifests may hold nodes and pods together
    if not sources:
        raise InputError("no trace given", expected="--nodes FILE --pods FILE, or --trace openb-like")
    loaded = [source.load().name for source in sources]
    for name in loaded:
        if loaded.count(name) > 1:
            raise InputError(f"two traces are named {name!r}", field="--pods", expected="files with different stems")
    return tuple(sources)


def command_line() -> str:
    """The command for the record, without what has no influence on results: number of jobs and place of the files."""
    import shlex

    given = iter(sys.argv[1:])
    kept = []
    for word in given:
        if word in ("--jobs", "--out"):
            next(given, None)
        elif not word.startswith(("--jobs=", "--out=")):
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


@contextmanager
def progress_bar(screen: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing in a log. Yields what is told (done, total)."""
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(content: object) -> None:
    sys.stdout.write(json.dumps(content, allow_nan=False) + "\n")
