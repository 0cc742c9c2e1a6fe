"""A worker: takes orders, waits for the others, runs the work, reports. Ends with its coordinator, its work with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from pilotage.gang.meeting import MeetingError, Order, Report, Seat

LOOK_SECONDS = 0.2  # between looks at the coordinator while the work runs
Command = Callable[[float], list[str]]  # of a size
_C = ctypes.PyDLL(None)  # found before a fork: what runs between fork and exec should do as little as it can
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def work(seat: Seat, task: str, command: Command) -> int:
    """Until the end is ordered; how many supersteps were done. MeetingError when the coordinator is gone."""
    done = 0
    while True:
        order = seat.take()
        if order.ends:
            return done
        seat.enter(order)
        seat.leave(_carry_out(seat, task, order, command))
        done += 1


def _carry_out(seat: Seat, task: str, order: Order, command: Command) -> Report:
    began = time.monotonic()
    process = start_work(command(order.size or 0.0))
    try:
        with _ending(process):
            while True:
                try:
                    code = process.wait(LOOK_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if seat.gone():
                        raise MeetingError("the coordinator is gone") from None
    finally:
        end_session(process)
    return Report(task, order.superstep, order.attempt, time.monotonic() - began, code)


def start_work(command: list[str]) -> subprocess.Popen[bytes]:
    """In a session of its own; killed by the kernel when the process that started it dies, however that happens."""
    return subprocess.Popen(  # noqa: S603 - the command of the job file is what the user wants to run
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call of the C library
    )


def _die_with_parent() -> None:
    _C.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """A request to end this process undoes first what is under way; another one meanwhile changes nothing."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _ending:  # noqa: N801 - reads like a verb where it is used
    """While work runs, a request to end the worker ends the work first."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGTERM, self._end)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _end(self, number: int, frame: FrameType | None) -> None:
        end_session(self._process)
        raise SystemExit(128 + number)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and all of its session that did not start another one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
