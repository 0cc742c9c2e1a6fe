"""Tables from outside as text cells with their rows, and numbers out of them. Sizes are bounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray

MAX_FILE_BYTES = 64 * 1024 * 1024
_SHOWN = 40  # characters of a bad value that a message repeats


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Row numbers (the header is row 1) and cells without the spaces around them; empty rows are left out."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path, expected="a CSV file") from error
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"is larger than {MAX_FILE_BYTES} bytes", file=path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is no text", file=path, expected="a CSV file in UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", file=path, row=reader.line_num) from error


def number_in(cell: str, path: Path, row: int, field: str, *, low: float = float("-inf")) -> float:
    """The finite number of a cell, `low` or more."""
    expected = "a number" if low == float("-inf") else f"a number from {low:g} on"
    if not cell:
        raise InputError("is missing", file=path, row=row, field=field, expected=expected)
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value < low:
        raise InputError(f"{cell[:_SHOWN]!r}", file=path, row=row, field=field, expected=expected)
    return value


def read_matrix(path: Path) -> FloatArray:
    """A header and rows of as many numbers."""
    rows = rows_of(path)
    _, header = next(rows, (0, []))
    if not header:
        raise InputError("is empty", file=path, expected="a header and rows of numbers")
    names = [name.lstrip("# ") for name in header]
    found = []
    for row, cells in rows:
        if len(cells) != len(names):
            raise InputError(f"{len(cells)} cells", file=path, row=row, expected=f"{len(names)}, as in the header")
        found.append([number_in(cell, path, row, name) for cell, name in zip(cells, names, strict=True)])
    if not found:
        raise InputError("has a header only", file=path, expected="rows of numbers")
    return np.array(found)
