"""`pilotage train cluster`: learn from a live cluster, beside its scheduler and never in its way."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.options import JsonOption, check_place, console, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.kube.recording import Recording
    from pilotage.training.on_cluster import ClusterLearning, Verdict

EXAMPLE = "Example: pilotage train cluster --kubeconfig $(pilotage lab kubeconfig) --out learned --rounds 1 --every 60"
NICENESS = 10  # whatever else runs here goes first
PARENT_SECONDS = 1.0
MOST_ENDED = 20_000  # pods that have ended and are still learned from


def cluster(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Recording, attempts, and the policy in use.")],
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    start: Annotated[str, typer.Option("--start", help="What is tuned at first.")] = "pilotage-pack",
    objective: Annotated[
        Literal["packing", "balance"], typer.Option("--objective", help="Close the packing room, or even out use.")
    ] = "packing",
    every: Annotated[float, typer.Option("--every", min=1.0, help="Seconds of watching before each attempt.")] = 600.0,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Attempts.  [default: until it is told to end]")
    ] = None,
    generations: Annotated[int, typer.Option("--generations", min=1, max=9_999, help="Of each attempt.")] = 40,
    load: Annotated[
        float, typer.Option("--load", min=0.1, help="Arriving GPU / capacity when policies are tried.")
    ] = 1.3,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
    as_json: JsonOption = False,
) -> None:
    """Record what happens in a cluster, tune a copy of the policy to it, and let it take over where it is better.

    DIR/current is the policy in use; pilotage schedule --learn DIR starts this and follows that link.
    """
    if util.find_spec("cma") is None:
        raise InputError("learning needs cma", expected="pip install 'pilotage[train]'")
    from pilotage.training.evolution_start import start_parameters
    from pilotage.training.on_cluster import ClusterLearning

    check_place(out)
    start_parameters(start, objective)
    os.nice(NICENESS)
    settings = ClusterLearning(objective=objective, generations=generations, load=load)
    asyncio.run(_learn(out, kubeconfig, context, start, settings, every, rounds, with_parent, as_json))


async def _learn(
    out: Path,
    kubeconfig: Path | None,
    context: str | None,
    start: str,
    settings: ClusterLearning,
    every: float,
    rounds: int | None,
    with_parent: bool,
    as_json: bool,
) -> None:
    from pilotage.kube.access import find_access
    from pilotage.kube.many import first_of
    from pilotage.kube.recording import following
    from pilotage.model.clock import SystemClock
    from pilotage.training.on_cluster import StoppedError

    stop, loop, say = asyncio.Event(), asyncio.get_running_loop(), console().print
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    parent = asyncio.create_task(_end_with_parent(stop)) if with_parent else None
    done = 0
    async with following(find_access(kubeconfig, context), SystemClock(), stop, say) as recording:
        while not stop.is_set() and (rounds is None or done < rounds):
            await first_of(stop, timeout=every)
            if stop.is_set():
                break
            done += 1
            try:
                verdict = await _attempt(recording, out, start, settings, stop)
            except (InputError, StoppedError) as error:
                say(f"nothing learned: {error}")
            else:
                _tell(verdict, as_json=as_json)
    if parent is not None:
        parent.cancel()


async def _attempt(
    recording: Recording, out: Path, start: str, settings: ClusterLearning, stop: asyncio.Event
) -> Verdict:
    """In a thread: the watches go on meanwhile."""
    from pilotage.kube.recording_files import write_recording
    from pilotage.training.on_cluster import learn_once

    if not recording.nodes or not recording.pods:
        raise InputError("nothing was recorded yet", expected="a cluster with nodes and pods")
    recording.forget_ended(but=MOST_ENDED)
    write_recording(recording, out / "recorded")
    return await asyncio.to_thread(learn_once, out / "recorded", start, out, settings, stop.is_set)


async def _end_with_parent(stop: asyncio.Event) -> None:
    """Who started this was killed: nobody would use what is learned."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_SECONDS)
    stop.set()


def _tell(verdict: Verdict, *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print_json(asdict(verdict))
        return
    low = "" if verdict.low is None else f" (95 %: {verdict.low:+.4f} to {verdict.high:+.4f})"
    what = f"{verdict.policy} takes over" if verdict.taken_over else "what is in use stays"
    results().print(
        f"attempt {verdict.number} on {verdict.pods} pods: {verdict.difference:+.4f} in fitness{low}; {what}",
        soft_wrap=True,
    )
