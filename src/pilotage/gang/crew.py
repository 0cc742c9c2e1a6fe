"""The worker processes of a job on this machine, with a CPU quota each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pilotage.gang.quota import Quota

TOKEN = "PILOTAGE_GANG_TOKEN"  # noqa: S105 - the name of a variable
COMMAND = "PILOTAGE_GANG_COMMAND"  # what a worker without the job file runs, as JSON
MARK = "PILOTAGE_GANG_MARK"  # in the environment of a worker and of all that it starts: which run, which task
END_SECONDS = 5.0


class Workforce(Protocol):
    """The workers of a job, wherever they are."""

    def start(self, task: str) -> None: ...
    def alive(self, task: str) -> bool: ...
    def restart(self, task: str) -> None: ...
    def resize(self, share: Mapping[str, int]) -> None:
        """Milli CPU by task, changed in place."""
        ...

    def close(self) -> None: ...


class Crew:
    """Starts, restarts and ends workers. Quotas are optional: without them a division has no effect.

    `mark` is that of the run: what carries it and is not of this crew is left of a run that was killed.
    """

    def __init__(self, job: Path, arguments: Sequence[str], token: str, mark: str, quotas: Mapping[str, Quota]) -> None:
        self._job, self._arguments, self._token, self._quotas = job, tuple(arguments), token, quotas
        self._mark = mark
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, task: str) -> None:
        end_marked(self._mark_of(task))
        command = [sys.executable, "-m", "pilotage", "gang", "worker", str(self._job), "--task", task]
        if task in self._quotas:
            command += ["--cgroup", str(self._quotas[task].path)]
        self._workers[task] = subprocess.Popen(  # noqa: S603 - this program itself
            [*command, *self._arguments],
            env={**os.environ, TOKEN: self._token, MARK: self._mark_of(task)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def alive(self, task: str) -> bool:
        worker = self._workers.get(task)
        return worker is not None and worker.poll() is None

    def _mark_of(self, task: str) -> str:
        return f"{self._mark}/{task}"

    def restart(self, task: str) -> None:
        self._end(task)
        self.start(task)

    def _end(self, task: str) -> None:
        """Ends a worker, one that hangs too, and whatever it left running."""
        worker = self._workers.pop(task, None)
        if worker is not None:
            worker.terminate()  # it ends its work
            try:
                worker.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        if task in self._quotas:
            self._quotas[task].end()
        end_marked(self._mark_of(task))

    def resize(self, share: Mapping[str, int]) -> None:
        for task, milli in share.items():
            if task in self._quotas:
                self._quotas[task].set(milli)

    def close(self) -> None:
        """Workers that were told to end get a moment for it."""
        until = time.monotonic() + END_SECONDS
        for worker in self._workers.values():
            with suppress(subprocess.TimeoutExpired):
                worker.wait(max(until - time.monotonic(), 0.0))
        for task in list(self._workers):
            self._end(task)
        for quota in self._quotas.values():
            quota.remove()


def end_marked(mark: str) -> None:
    """Kills all that was started under a mark and still runs, in whatever session or group it is now."""
    until = time.monotonic() + END_SECONDS
    while (found := having_mark(mark)) and time.monotonic() < until:
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def having_mark(mark: str) -> list[int]:
    """Processes that were started under a mark; a dead one has none, even before it is waited for."""
    variable, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone meanwhile, or of somebody else
            if variable in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found
