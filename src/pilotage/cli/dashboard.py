"""`pilotage dashboard`: a web page of a live cluster, whoever schedules it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import console
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilotage.dashboard.serving import Place
    from pilotage.kube.cache import ClusterCache
    from pilotage.model.clock import Clock
    from pilotage.policies.api import Policy
    from pilotage.scheduler.run import Scheduler
    from pilotage.scheduler.shadow import Shadow

EXAMPLE = "Example: pilotage dashboard --kubeconfig $(pilotage lab kubeconfig)"
ADDRESS = "127.0.0.1:7780"


def dashboard(
    *,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    shadow: Annotated[
        str | None, typer.Option("--shadow", metavar="POLICY", help="Ask it what it would have done with each pod.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Where; port 0: a free one.")
    ] = ADDRESS,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Token to ask for; a must off loopback.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM.")] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Off loopback without TLS: a proxy in front does it.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="How long.  [default: until it is told to end]")
    ] = None,
) -> None:
    """Show a cluster as a web page: nodes, heat maps, waiting pods, decisions and why. It only reads.

    Works beside any scheduler: kube-scheduler, Pilotage or both.
    """
    from pilotage.policies.registry import find_policy

    policy = find_policy(shadow) if shadow is not None else None
    place = _place(address, token_file, tls_certificate, tls_key, plain_http=plain_http)
    asyncio.run(_run((kubeconfig, context), policy, place, seconds))


def _place(
    address: str,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    plain_http: bool = False,
) -> Place:
    try:
        from pilotage.dashboard.serving import place_of
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed", expected="pip install 'pilotage[serve]'") from None
    return place_of(address, token_file, certificate, key, plain=plain_http)


def loopback_place(address: str) -> Place:
    """Of a page inside a process that has more to do: it never leaves the machine."""
    from pilotage.kube.listening import is_loopback

    if not is_loopback(address.rpartition(":")[0].strip("[]")):
        expected = "a loopback address; elsewhere pilotage dashboard with a token, or kubectl port-forward"
        raise InputError(f"{address!r} leaves this machine", field="--dashboard", expected=expected)
    return replace(_place(address), option="--dashboard")


@asynccontextmanager
async def showing(scheduler: Scheduler, clock: Clock, place: Place) -> AsyncIterator[str]:
    """The page of a scheduler in this process, from its cache and its journal."""
    from pilotage.dashboard.journalled import JournalSource
    from pilotage.dashboard.serving import serving

    policies = {name: policy.name for name, policy in scheduler.profiles.items()}
    server = scheduler.client.access.server
    source = JournalSource(scheduler.cache, scheduler.journal, clock, server, policies)
    told = scheduler.on_problem

    def problem(text: str) -> None:
        source.note_problem(text)
        told(text)

    scheduler.on_problem = problem
    async with serving(source, clock, place) as page:
        yield page.url


def _shadow(cache: ClusterCache, policy: Policy) -> Shadow:
    """What is not on disk yet is compiled now, not when the first pod comes."""
    from pilotage.scheduler.cycle import compile_decisions
    from pilotage.scheduler.shadow import Shadow

    compile_decisions([policy])
    return Shadow(cache, policy)


async def _run(
    cluster: tuple[Path | None, str | None], policy: Policy | None, place: Place, seconds: float | None
) -> None:
    from pilotage.dashboard.serving import serving
    from pilotage.dashboard.watching import WatchedCluster
    from pilotage.kube.access import find_access
    from pilotage.kube.client import Client
    from pilotage.kube.many import first_of
    from pilotage.model.clock import SystemClock

    clock, stop, screen = SystemClock(), asyncio.Event(), console()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Client(find_access(*cluster), agent="pilotage-dashboard") as client:
        watched = WatchedCluster(client, clock)
        if policy is not None:
            watched.advisor = _shadow(watched.cache, policy)
        watching = asyncio.create_task(watched.run())
        watching.add_done_callback(lambda _: stop.set())  # only a fault of ours ends it
        try:
            async with serving(watched, clock, place) as page:
                screen.print(f"the dashboard is at {page.url}", soft_wrap=True)
                await first_of(stop, timeout=seconds)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
