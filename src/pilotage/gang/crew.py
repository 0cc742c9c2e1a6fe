"""The worker processes of a job on this machine, with a CPU quota each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pilotage.gang.quota import Quota

TOKEN = "PILOTAGE_GANG_TOKEN"  # noqa: S105 - the name of a variable
COMMAND = "PILOTAGE_GANG_COMMAND"  # what a worker without the job file runs, as JSON
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
    """Starts, restarts and ends workers. Quotas are optional: without them a division has no effect."""

    def __init__(self, job: Path, arguments: Sequence[str], token: str, quotas: Mapping[str, Quota]) -> None:
        self._job, self._arguments, self._token, self._quotas = job, tuple(arguments), token, quotas
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, task: str) -> None:
        command = [sys.executable, "-m", "pilotage", "gang", "worker", str(self._job), "--task", task]
        if task in self._quotas:
            command += ["--cgroup", str(self._quotas[task].path)]
        self._workers[task] = subprocess.Popen(  # noqa: S603 - this program itself
            [*command, *self._arguments],
            env={**os.environ, TOKEN: self._token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def alive(self, task: str) -> bool:
        worker = self._workers.get(task)
        return worker is not None and worker.poll() is None

    def process(self, task: str) -> int:
        return self._workers[task].pid

    def restart(self, task: str) -> None:
        self._end(task)
        self.start(task)

    def _end(self, task: str) -> None:
        """Ends a worker, one that hangs too, and whatever it left running."""
        worker = self._workers.pop(task, None)
        if worker is not None:
            with suppress(ProcessLookupError):
                worker.kill()
            worker.wait()
        if task in self._quotas:
            self._quotas[task].end()

    def resize(self, share: Mapping[str, int]) -> None:
        for task, milli in share.items():
            if task in self._quotas:
                self._quotas[task].set(milli)

    def close(self) -> None:
        """Workers that were told to end get a moment for it."""
        for worker in self._workers.values():
            with suppress(subprocess.TimeoutExpired):
                worker.wait(END_SECONDS)
        for task in list(self._workers):
            self._end(task)
        for quota in self._quotas.values():
            quota.remove()
