"""Columns of a CSV table: from bytes to values that were checked, with file, row and field where one is bad."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import BoolArray, FloatArray, IntArray

MAX_TEXT = 253  # the longest name Kubernetes allows

_NEWLINE, _COMMA, _SPACE = 10, 44, 32
_SHOWN = 40  # characters of a bad value that a message repeats
_SEPARATORS = re.compile(r'[,"\x00-\x1f\x7f]')
_SPELLED: dict[str, frozenset[str]] = {  # characters of a number; int and float take more, such as 1_000
    "whole": frozenset("0123456789+-"),
    "seconds": frozenset("0123456789+-.eE"),
}


class Column(NamedTuple):
    """One column of a table: what it may hold and whether it, or a value in it, may be absent."""

    name: str
    kind: Literal["text", "whole", "seconds"]
    low: int = 0
    high: int = MAX_TEXT
    required: bool = True
    may_be_empty: bool = False

    @property
    def expected(self) -> str:
        if self.kind == "text":
            return f"{'up to' if self.may_be_empty else '1 to'} {self.high} characters without commas or quotes"
        what = "a whole number" if self.kind == "whole" else "a number of seconds"
        return f"{what} from {self.low} to {self.high}" + (" or nothing" if self.may_be_empty else "")


Cells = dict[str, list[str]]  # columns as text, "" where there is no value


@dataclass(frozen=True)
class Typed:
    """Columns by kind, checked; a time that is not given is NaN."""

    text: Cells = field(default_factory=dict)
    whole: dict[str, IntArray] = field(default_factory=dict)
    seconds: dict[str, FloatArray] = field(default_factory=dict)

    def rows(self, names: Iterable[str]) -> list[tuple[int | str, ...]]:
        columns = (self.text[name] if name in self.text else self.whole[name].tolist() for name in names)
        return list(zip(*columns, strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self.text or name in self.whole or name in self.seconds


def _check_header(names: Sequence[str], columns: Sequence[Column], path: Path) -> None:
    known = [column.name for column in columns]
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name[:_SHOWN], known, file=path, row=1)
        if names.count(name) > 1:
            raise InputError("the column appears twice", file=path, row=1, field=name)
    for column in columns:
        if column.required and column.name not in names:
            raise InputError("the column is missing", file=path, row=1, field=column.name, expected=",".join(known))


# From bytes to a table of text


def read_cells(path: Path, columns: Sequence[Column], max_bytes: int) -> Cells:
    """All values as text; the header is checked, the values are not."""
    path = Path(path)
    data = _one_row_per_line(_bounded_bytes(path, max_bytes), path)
    header = data.partition(b"\n")[0].decode().split(",")
    _check_header(header, columns, path)
    _check_widths(data, len(header), path)
    cells = data.decode().replace("\n", ",").split(",")  # rows are equally wide, so that a column is every n-th cell
    return {name: cells[len(header) + place :: len(header)] for place, name in enumerate(header)}


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


def _check_widths(data: bytes, width: int, path: Path) -> None:
    buffer = np.frombuffer(data, np.uint8)
    starts = np.append(0, np.flatnonzero(buffer == _NEWLINE) + 1)
    fields = np.add.reduceat(buffer == _COMMA, starts, dtype=np.int64) + 1
    wrong = np.flatnonzero(fields != width)
    if len(wrong):
        problem = f"the row has {fields[wrong[0]]} fields"
        raise InputError(problem, file=path, row=int(wrong[0]) + 1, expected=f"{width} as in the header")


# From text to values


def checked(cells: Cells, columns: Iterable[Column], path: Path, *, unique: str) -> Typed:
    """The table with typed columns: no bad value, no repeated name, at least one row."""
    if not any(cells.values()):
        raise InputError("has a header and no rows", file=path, expected="at least one row")
    table = Typed()
    for column in columns:
        values = cells.get(column.name)
        if values is None:
            continue
        if column.kind == "text":
            table.text[column.name] = _checked_text(values, column, path)
        elif column.kind == "whole":
            table.whole[column.name] = np.array(_numbers(values, column, path, 0), np.int64)
        else:
            table.seconds[column.name] = np.array(_numbers(values, column, path, np.nan), np.float64)
    names = table.text[unique]
    if len(set(names)) < len(names):
        first = {name: row for row, name in reversed(list(enumerate(names)))}
        repeated = [first[name] < row for row, name in enumerate(names)]
        wrong = InputError("the name is used twice", file=path, field=unique, expected="distinct names")
        refuse(repeated, wrong)
    return table


def _checked_text(values: list[str], column: Column, path: Path) -> list[str]:
    longest, missing = max(map(len, values)), not column.may_be_empty and not all(values)
    if missing or longest > column.high or _SEPARATORS.search("".join(values)):
        bad = [len(value) > column.high or _SEPARATORS.search(value) is not None for value in values]
        _refuse_values(values, bad, column, path)
    return values


def _numbers(values: list[str], column: Column, path: Path, nothing: float) -> Sequence[float]:
    """Each value as a number, `nothing` where it is empty."""
    gaps = not all(values)
    filled = [value or "0" for value in values] if gaps else values
    try:
        found = _all_numbers(filled, column)
    except ValueError:
        _refuse_values(values, [_is_bad(value, column) for value in filled], column, path)
        raise  # no value alone is bad: cannot be
    if gaps and not column.may_be_empty:
        _refuse_values(values, [False] * len(values), column, path)
    return [number if value else nothing for value, number in zip(values, found, strict=True)] if gaps else found


def _all_numbers(values: list[str], column: Column) -> list[float]:
    """All at once, which is what makes reading fast; ValueError if one is bad."""
    text = "".join(values)
    plain = text.isascii() and text.isdigit()
    if not plain and not set(text) <= _SPELLED[column.kind]:
        raise ValueError("other characters")
    found: list[float] = list(map(int if plain or column.kind == "whole" else float, values))
    if min(found) < column.low or max(found) > column.high:
        raise ValueError("out of range")
    return found


def _is_bad(value: str, column: Column) -> bool:
    try:
        _all_numbers([value], column)
    except ValueError:
        return True
    return False


def _refuse_values(values: list[str], bad: list[bool], column: Column, path: Path) -> None:
    """Name the first value that is bad, or empty where one is needed."""
    bad = [wrong if value else not column.may_be_empty for value, wrong in zip(values, bad, strict=True)]
    if any(bad):
        value = values[bad.index(True)]
        problem = f"bad value {value[:_SHOWN]!r}" if value else "the value is empty"
        refuse(bad, InputError(problem, file=path, field=column.name, expected=column.expected))


def refuse(bad: Sequence[bool] | BoolArray, error: InputError) -> None:
    """Raise `error` for the first row that is bad, with that row's number in the file."""
    if np.any(bad):
        row = int(np.argmax(bad)) + 2
        raise InputError(error.problem, file=error.file, row=row, field=error.field, expected=error.expected)
