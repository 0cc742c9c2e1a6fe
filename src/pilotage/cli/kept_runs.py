"""Work on many runs whose results are kept: a lock, a progress line, and what is said when it is ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pilotage.cli.options import console, progress_bar

if TYPE_CHECKING:
    from pilotage.sim.run_store import RunStore

Result = TypeVar("Result")
Advance = Callable[[int, int], None]


def keeping_runs(
    out: Path | None,
    what: str,
    work: Callable[[RunStore | None, Advance], Result],
    write: Callable[[Result, Path], Path],
    *,
    fresh: bool,
) -> Result:
    """What `work` gives. With `out` finished runs are kept there, and `write` leaves a report and returns its path."""
    from pilotage.sim.run_store import RunStore

    screen = console()
    if out is None:
        with progress_bar(screen, what) as advance:
            return work(None, advance)
    store = RunStore(out, fresh=fresh)
    with store.alone():
        try:
            with progress_bar(screen, what) as advance:
                result = work(store, advance)
        except KeyboardInterrupt:
            screen.print("ended; the same command goes on from here", soft_wrap=True)
            raise
        if store.found:
            screen.print(f"{store.found} runs were there already", soft_wrap=True)
        screen.print(f"report: {write(result, out)}", soft_wrap=True)
    return result
