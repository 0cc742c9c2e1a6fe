"""The directory of a run: one process at a time, and a mark by which what the run leaves elsewhere is known as its own.

Control groups, processes and nodes in ZooKeeper carry the mark. Whoever has the directory to itself may end what
carries its mark: that is of a run that was killed. What other directories mark is left alone.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.workloads.files import make_directory

LOCK = ".lock"
_DIGITS = 10


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
