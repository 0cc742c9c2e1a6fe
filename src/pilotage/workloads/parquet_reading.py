"""Parquet read in a process of its own: a damaged file can end the process that reads it, and no input may do that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from arro3.core import DataType


class ReadColumn(NamedTuple):
    """Values, None where there is none, and what they are: Int64, String, List(Int64), ..."""

    kind: str
    values: list[Any]


def read_parquet(path: Path, names: Sequence[str]) -> dict[str, ReadColumn]:
    """Those of the named columns that the file has."""
    done = subprocess.run(  # noqa: S603 - this very module
        [sys.executable, "-m", __name__, str(path), *names], capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:120]
        raise InputError(f"cannot be read: {said}", file=path, expected="a Parquet file")
    return msgspec.msgpack.decode(done.stdout, type=dict[str, ReadColumn])


def _columns(path: str, names: Sequence[str]) -> dict[str, ReadColumn]:
    from arro3.io import read_parquet as read

    table = read(path).read_all()
    known = [name for name in names if name in table.column_names]
    return {name: ReadColumn(_kind(table[name].type), list(table[name].to_pylist())) for name in known}


def _kind(found: DataType) -> str:
    """Texts and lists have several forms in memory, which are one to a reader."""
    from arro3.core import DataType

    if DataType.is_list(found) or DataType.is_large_list(found):
        return f"List({_kind(found.value_type) if found.value_type else ''})"
    if DataType.is_string(found) or DataType.is_large_string(found) or DataType.is_string_view(found):
        return "String"
    return str(found).partition("<")[2].rpartition(">")[0]


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.msgpack.encode(_columns(sys.argv[1], sys.argv[2:])))
