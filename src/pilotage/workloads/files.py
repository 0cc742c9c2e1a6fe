"""Files that appear whole or not at all, also to somebody who reads the old one meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pilotage.model.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream to write to; the file takes its place when the block ends well."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from error
    finally:
        partial.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    with replacing(path) as stream:
        stream.write(data)


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=path, expected="a directory") from error


def remove_partial_files(directory: Path) -> None:
    """Removes what `replacing` left behind in processes that were killed."""
    for path in directory.glob(".*.*.partial"):
        if not _runs(path.name.split(".")[-2]):  # one that still runs is still writing
            path.unlink(missing_ok=True)


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
