"""`pilotage schedule --advise`: the adviser, its table and its report."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotage.cli.options import check_place, console, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from arro3.core import Array

    from pilotage.dashboard.serving import Place
    from pilotage.policies.api import Policy
    from pilotage.scheduler.advising import Adviser
    from pilotage.scheduler.endpoint import EndpointSettings
    from pilotage.scheduler.run import Settings

WRITTEN_EVERY = 60.0  # seconds


async def run_adviser(
    policies: dict[str, Policy],
    settings: Settings,
    cluster: tuple[Path | None, str | None],
    out: Path,
    shown: tuple[int | None, Place | None, EndpointSettings | None],
) -> dict[str, float]:
    """Until it is told to end. SIGUSR1: write and report now. `shown`: port of status pages, page, endpoint."""
    from pilotage.kube.access import find_access
    from pilotage.kube.client import Client
    from pilotage.model.clock import SystemClock
    from pilotage.scheduler.advising import Adviser
    from pilotage.scheduler.endpoint import answering
    from pilotage.scheduler.status_pages import serve_status

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: unknown kind of file", field="--advise", expected="a name in .csv or .parquet")
    check_place(out.parent)
    say = console().print
    stop, now = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, now.set)
    metrics_port, place, endpoint = shown
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(find_access(*cluster), agent="pilotage-adviser"))
        problems: list[Callable[[str], None]] = [say]

        def tell(text: str) -> None:
            for told in problems:
                told(text)

        adviser = Adviser(client, policies, SystemClock(), settings, tell)
        if place is not None:
            from pilotage.dashboard.serving import serving
            from pilotage.scheduler.shown_advice import AdviceSource

            source = AdviceSource.of(adviser, adviser.clock)
            problems.append(source.note_problem)
            page = await stack.enter_async_context(serving(source, adviser.clock, place))
            say(f"the dashboard is at {page.url}", soft_wrap=True)
        registry = adviser.metrics.registry
        pages = serve_status(metrics_port, registry, adviser.journal) if metrics_port is not None else None
        try:
            async with answering(endpoint, registry, adviser.missing, tell):
                await _advise(adviser, out, stop, now)
        finally:
            if pages is not None:
                await asyncio.to_thread(pages.shutdown)
                pages.server_close()
        write_table(adviser, out)
        figures = adviser.report()
    print_report(figures)
    return figures


async def _advise(adviser: Adviser, out: Path, stop: asyncio.Event, now: asyncio.Event) -> None:
    from pilotage.kube.many import first_of

    task = asyncio.create_task(adviser.run(stop))
    task.add_done_callback(lambda _: stop.set())
    await first_of(adviser.synced, stop)
    watched = ", ".join(f"{name} by {policy.name}" for name, policy in adviser.profiles.items())
    console().print(f"advises only, on pods of {watched}")
    try:
        while not stop.is_set():
            await first_of(stop, now, timeout=WRITTEN_EVERY)
            write_table(adviser, out)
            if now.is_set():
                now.clear()
                print_report(adviser.report())
    finally:
        stop.set()
        await task


def write_table(adviser: Adviser, path: Path) -> None:
    from pilotage.scheduler.advising import SCHEMA
    from pilotage.workloads.files import replace_file
    from pilotage.workloads.tables import csv, flags, numbers, parquet, texts, wholes

    rows = adviser.table()
    if path.suffix == ".csv":
        replace_file(path, csv(list(SCHEMA), rows))
        return
    column_of: dict[type, Callable[[Any], Array]] = {str: texts, int: wholes, bool: flags, float: numbers}
    columns = {name: column_of[kind]([row[name] for row in rows]) for name, kind in SCHEMA.items()}
    replace_file(path, parquet(columns))


def print_report(figures: dict[str, float]) -> None:
    from rich.table import Table

    table = Table("figure", "value", title="What would have been done differently")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:.4g}")
    results().print(table)
