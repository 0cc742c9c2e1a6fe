"""Cells of a CSV file: found in its bytes, and read column by column."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import BoolArray, IntArray

SHOWN = 40  # characters of a bad value that a message repeats
_NEWLINE, _COMMA, _SPACE, _ZERO = 10, 44, 32, 48
_MOST_DIGITS = 18  # fewer than a 64-bit number can have


class Cells:
    """Columns of text, "" where there is no value."""

    def __init__(self, columns: dict[str, list[str]]) -> None:
        self.columns, self.names = columns, list(columns)

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def text(self, name: str) -> list[str]:
        return self.columns[name]

    def plain_numbers(self, name: str) -> IntArray | None:
        """Whole numbers without a sign, -1 where there is no value; None if there is anything else in the column."""
        return None


class FileCells(Cells):
    """Those of a file whose lines are rows of the same width. Numbers are read without a text for each of them."""

    def __init__(self, data: bytes, names: list[str], path: Path) -> None:
        self.data, self.names = data, names
        self.buffer = np.frombuffer(data, np.uint8)
        separators = np.flatnonzero((self.buffer == _COMMA) | (self.buffer == _NEWLINE))
        end_Z = np.append(separators, len(data))
        _check_widths(np.append(self.buffer[separators], _NEWLINE) == _NEWLINE, len(names), path)
        self.start_RC = np.append(0, separators + 1).reshape(-1, len(names))[1:]
        self.end_RC = end_Z.reshape(-1, len(names))[1:]

    def __len__(self) -> int:
        return len(self.end_RC)

    def text(self, name: str) -> list[str]:
        place = self.names.index(name)
        spans = zip(self.start_RC[:, place].tolist(), self.end_RC[:, place].tolist(), strict=True)
        if self.data.isascii():
            text = self.data.decode()
            return [text[start:end] for start, end in spans]
        return [self.data[start:end].decode() for start, end in spans]

    def plain_numbers(self, name: str) -> IntArray | None:
        place = self.names.index(name)
        start_R, length_R = self.start_RC[:, place], (self.end_RC - self.start_RC)[:, place]
        longest = int(length_R.max())
        if longest > _MOST_DIGITS:
            return None
        value_R = np.zeros(len(length_R), np.int64)
        for k in range(longest):
            digit_R = self.buffer.take(start_R + k, mode="clip").astype(np.int64) - _ZERO
            inside_R = k < length_R
            if ((digit_R < 0) | (digit_R > 9))[inside_R].any():
                return None
            value_R = np.where(inside_R, 10 * value_R + digit_R, value_R)
        return np.where(length_R > 0, value_R, -1)


def read_cells(path: Path, known: Mapping[str, bool], max_bytes: int) -> Cells:
    """The header is checked, by names that are known and whether they are required; the values are not."""
    path = Path(path)
    data = _one_row_per_line(_bounded_bytes(path, max_bytes), path)
    header = data.partition(b"\n")[0].decode().split(",")
    check_header(header, known, path)
    return FileCells(data, header, path)


def check_header(names: Sequence[str], known: Mapping[str, bool], path: Path) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name[:SHOWN], list(known), file=path, row=1)
        if names.count(name) > 1:
            raise InputError("the column appears twice", file=path, row=1, field=name)
    for name, required in known.items():
        if required and name not in names:
            raise InputError("the column is missing", file=path, row=1, field=name, expected=",".join(known))


def _check_widths(ends_row_Z: BoolArray, width: int, path: Path) -> None:
    """`ends_row_Z`: of each cell, whether it is the last of its row."""
    fields_R = np.diff(np.flatnonzero(ends_row_Z), prepend=-1)
    wrong = np.flatnonzero(fields_R != width)
    if len(wrong):
        problem = f"the row has {fields_R[wrong[0]]} fields"
        raise InputError(problem, file=path, row=int(wrong[0]) + 1, expected=f"{width} as in the header")


def _bounded_bytes(path: Path, max_bytes: int) -> bytes:
    try:
        if not path.is_file():
            problem = "is not a file" if path.exists() else "there is no such file"
            raise InputError(problem, file=path)
        if path.stat().st_size > max_bytes:
            raise InputError("the file is too large", file=path, expected=f"at most {max_bytes} bytes")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(f"cannot be read: {error}", file=path) from error


def _one_row_per_line(data: bytes, path: Path) -> bytes:
    """UTF-8 without mark, carriage returns, quotes or control characters, so that lines are rows."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", file=path, row=row, expected="a CSV file") from error
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n")
    if not data:
        raise InputError("the file is empty", file=path, expected="a header and rows")
    buffer = np.frombuffer(data, np.uint8)
    control = (buffer < _SPACE) & (buffer != _NEWLINE)
    if control.any():
        row = data.count(b"\n", 0, int(control.argmax())) + 1
        raise InputError("has control characters", file=path, row=row, expected="comma-separated text")
    return _without_quotes(data, path) if b'"' in data else data


def _without_quotes(data: bytes, path: Path) -> bytes:
    """Some tools quote every text. No value needs it: one that holds a comma shows up as a row too wide."""
    lines = []
    for row, line in enumerate(data.decode().split("\n"), start=1):
        try:
            lines.append(",".join(next(csv.reader([line], strict=True), [])))
        except csv.Error as error:
            raise InputError(f"bad quotes: {error}", file=path, row=row) from error
    return "\n".join(lines).encode()
