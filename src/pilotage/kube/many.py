"""Many requests, a few at a time; several things at once; several events, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

AT_ONCE = 32


async def for_each(
    items: Iterable[T],
    do: Callable[[T], Awaitable[object]],
    progress: Callable[[int, int], None] = lambda done, total: None,
    at_once: int = AT_ONCE,
) -> None:
    """Does it for each item, in their order, `at_once` at a time. The first error ends the rest and is raised."""
    waiting = list(items)
    total, done = len(waiting), 0
    waiting.reverse()

    async def worker() -> None:
        nonlocal done
        while waiting:
            await do(waiting.pop())
            done += 1
            progress(done, total)

    await together(*(worker() for _ in range(min(at_once, total))))


async def together(*doings: Coroutine[Any, Any, object]) -> None:
    """All at once; the first error ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for doing in doings:
                group.create_task(doing)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    """Returns when one of the events is set, or after the time."""
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
