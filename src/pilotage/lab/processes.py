"""Processes that outlive the command that started them, known by id and start time: an id alone may be another's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pilotage.model.clock import Clock

TERM_SECONDS, KILL_SECONDS = 30.0, 10.0
POLL_SECONDS = 0.02
LOG_LINES = 15
MAX_LOG_TAIL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Started:
    """A process of a lab."""

    name: str
    pid: int
    start_time: int  # in clock ticks since the machine started

    @property
    def alive(self) -> bool:
        with suppress(ChildProcessError):  # of another command
            os.waitpid(self.pid, os.WNOHANG)
        return _start_time(self.pid) == self.start_time

    def signal(self, number: int) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(name: str, arguments: Sequence[str | Path], log: Path, directory: Path) -> Started:
    """Starts a program in a session of its own, so that Ctrl-C in a terminal is not for it; output goes to `log`."""
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603
            [str(word) for word in arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ},
        )
    started = Started(name, process.pid, _start_time(process.pid) or 0)
    process.returncode = 0  # its end is not ours to wait for: keeps Python from warning about it
    return started


def stop(process: Started, clock: Clock) -> None:
    """Asks it to end, then makes it."""
    for number, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        process.signal(signal.SIGCONT)  # a paused one would not hear the other
        process.signal(number)
        deadline = clock.now() + seconds
        while process.alive and clock.now() < deadline:
            clock.wait(POLL_SECONDS)
        if not process.alive:
            return


def last_lines(log: Path, count: int = LOG_LINES) -> str:
    """The end of a log, for a message."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - MAX_LOG_TAIL))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return "(no log)"
    return "\n".join(f"  {line[:300]}" for line in lines[-count:]) or "  (the log is empty)"


def _start_time(pid: int) -> int | None:
    """None for a process that has ended, also where nobody has asked for its result yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
