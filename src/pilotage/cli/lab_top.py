"""`pilotage lab top`: nodes, what waits and what was decided, live in a terminal or as text."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.options import JsonOption, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.kube.access import Access
    from pilotage.lab.overview import Overview

EXAMPLE = "Example: pilotage lab top --sort CPU"
SYNC_SECONDS = 60.0

Column = Literal["node", "state", "CPU", "memory GiB", "GPU", "pods", "model"]


def top(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Which lab.")] = "default",
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Any other cluster.  [default: the lab]")
    ] = None,
    sort: Annotated[Column, typer.Option("--sort", help="Fullest first, where it is a share.")] = "node",
    filtered: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only nodes with it in name, state or GPU model.")
    ] = "",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=3600.0, help="Between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One look, as text; so does a pipe.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show nodes with what they have in use, totals, balance, pending pods and the last decisions.

    Keys: s sorts by the next column, r turns the order round, / filters, space pauses, d hides decisions, q ends.
    """
    access = _access(name, kubeconfig)
    if once or as_json or not sys.stdout.isatty():
        _print(asyncio.run(_look(access)), sort, filtered, as_json=as_json)
    else:
        asyncio.run(_show(access, sort, filtered, seconds))


def _access(lab: str, kubeconfig: Path | None) -> Access:
    from pilotage.kube.access import read_kubeconfig
    from pilotage.lab.controlplane import find_lab
    from pilotage.model.clock import SystemClock

    return read_kubeconfig(kubeconfig or find_lab(lab).kubeconfig, None, SystemClock())


async def _look(access: Access) -> Overview:
    from pilotage.kube.client import Client
    from pilotage.lab.overview import Watched
    from pilotage.model.clock import SystemClock

    async with Client(access, agent="pilotage-top") as client:
        watched = Watched(client, SystemClock())
        tasks = [asyncio.create_task(informer.run()) for informer in watched.informers]
        try:
            await asyncio.wait_for(
                asyncio.gather(*(informer.synced.wait() for informer in watched.informers)), SYNC_SECONDS
            )
        except TimeoutError:
            raise InputError(f"no answer within {SYNC_SECONDS:g} s", expected="a cluster that is up") from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return watched.overview()


async def _show(access: Access, sort: Column, filtered: str, seconds: float) -> None:
    from pilotage.kube.client import Client
    from pilotage.lab.overview import Watched
    from pilotage.lab.top import Top
    from pilotage.model.clock import SystemClock

    async with Client(access, agent="pilotage-top") as client:
        watched = Watched(client, SystemClock())

        async def follow() -> None:
            await asyncio.gather(*(informer.run() for informer in watched.informers))

        await Top(watched.overview, follow, seconds, sort, filtered).run_async()


def _print(overview: Overview, sort: Column, filtered: str, *, as_json: bool) -> None:
    from dataclasses import asdict

    from pilotage.lab.overview_table import FULLEST_FIRST, chosen, plain

    rows = chosen(overview, filtered, sort, reverse=sort in FULLEST_FIRST)
    if as_json:
        decisions = [asdict(one) | {"moment": one.moment.isoformat()} for one in overview.decisions]
        figures = {"cpu_variance": overview.cpu_variance, "pending": overview.pending}
        print_json({"nodes": [asdict(row) for row in rows], **figures, "decisions": decisions})
    else:
        results().print(plain(overview, rows), soft_wrap=True)
