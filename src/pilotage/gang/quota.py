"""CPU quotas of running work by control groups, version 1 or 2. A quota is changed in place, while the work runs."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pilotage.model.errors import InputError

PERIOD_US: Final = 100_000
LEAST_US: Final = 1_000  # the kernel takes no smaller quota
ROOT: Final = Path("/sys/fs/cgroup")
END_SECONDS: Final = 10.0  # for killed processes to be gone


@dataclass(frozen=True)
class Quota:
    """The control group of one task."""

    path: Path
    version: int

    def set(self, milli: int) -> None:
        quota = max(LEAST_US, milli * PERIOD_US // 1000)
        if self.version == 2:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))

    def milli(self) -> int:
        """The quota that is in force."""
        if self.version == 2:
            quota, period = (self.path / "cpu.max").read_text().split()
            return int(quota) * 1000 // int(period)
        return int((self.path / "cpu.cfs_quota_us").read_text()) * 1000 // PERIOD_US

    @property
    def members(self) -> Path:
        return self.path / "cgroup.procs"

    def command(self, command: list[str]) -> list[str]:
        """The command, entering the group before it begins."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.members), *command]

    def end(self) -> int:
        """Kills all that runs in it; how many processes that was."""
        killed: set[int] = set()
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until:
            members = self._processes()
            if not members:
                break
            killed |= set(members)
            for process in members:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
        return len(killed)

    def _processes(self) -> list[int]:
        try:
            return [int(line) for line in self.members.read_text().split()]
        except OSError:
            return []

    def remove(self) -> None:
        self.end()
        with suppress(FileNotFoundError):
            self.path.rmdir()


def version_here(root: Path = ROOT) -> int:
    """Which version this machine has and lets us use; refused with the reason where neither is."""
    if (root / "cgroup.controllers").exists():
        if "cpu" in (root / "cgroup.subtree_control").read_text().split() and os.access(root, os.W_OK):
            return 2
    elif os.access(root / "cpu", os.W_OK):
        return 1
    raise InputError("control groups for CPU cannot be written", file=root, expected="root, cgroup v1 or v2 with cpu")


def make_quota(name: str, root: Path = ROOT) -> Quota:
    """A group of this name; what is in it is ended, so the name must belong to this run and to earlier ones of it."""
    version = version_here(root)
    path = (root if version == 2 else root / "cpu") / f"pilotage-{name}"
    quota = Quota(path, version)
    if path.exists():
        quota.remove()
    try:
        path.mkdir()
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=path, expected="a writable control group") from error
    return quota
