"""The directory of a run: one process at a time, and a mark by which what the run leaves elsewhere is known as its own.

Control groups, processes and nodes in ZooKeeper carry the mark. Whoever has the directory to itself may end what
carries its mark: that is of a run that was killed. What other directories mark is left alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from pilotage.model.errors import InputError
from pilotage.workloads.files import make_directory, replace_file

LOCK = ".lock"
RUN = ".run"
_DIGITS = 10
_CHANCE = re.compile("[0-9a-f]{12}")


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """While this lasts no other process may use the directory."""
    make_directory(directory)
    with (directory / LOCK).open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another run is writing there", file=directory, field="--out", expected="another directory"
            ) from None
        yield


def mark_of(directory: Path) -> str:
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:_DIGITS]


def run_of(directory: Path) -> str:
    """Name of the run that a directory holds, the same whenever it is gone on with; of no other on any machine.

    Only for who has the directory to itself. A copy of it is another run.
    """
    path = directory / RUN
    chance = path.read_text().strip() if path.exists() else ""
    if not _CHANCE.fullmatch(chance):
        chance = token_hex(6)
        replace_file(path, f"{chance}\n".encode())
    return f"{mark_of(directory)}-{chance}"
