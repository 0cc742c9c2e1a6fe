"""Columns of a CSV table: from bytes to values that were checked, with file, row and field where one is bad."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import BoolArray, FloatArray, IntArray
from pilotage.workloads.csv_cells import SHOWN, Cells

MAX_TEXT = 253  # the longest name Kubernetes allows

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


@dataclass(frozen=True)
class Typed:
    """Columns by kind, checked; a time that is not given is NaN."""

    text: dict[str, list[str]] = field(default_factory=dict)
    whole: dict[str, IntArray] = field(default_factory=dict)
    seconds: dict[str, FloatArray] = field(default_factory=dict)

    def rows(self, names: Iterable[str]) -> list[tuple[int | str, ...]]:
        columns = (self.text[name] if name in self.text else self.whole[name].tolist() for name in names)
        return list(zip(*columns, strict=True))

    def __contains__(self, name: str) -> bool:
        return name in self.text or name in self.whole or name in self.seconds


def checked(cells: Cells, columns: Iterable[Column], path: Path, *, unique: str) -> Typed:
    """The table with typed columns: no bad value, no repeated name, at least one row."""
    if not len(cells):
        raise InputError("has a header and no rows", file=path, expected="at least one row")
    table = Typed()
    for column in columns:
        if column.name not in cells.names:
            continue
        if column.kind == "text":
            table.text[column.name] = _checked_text(cells.text(column.name), column, path)
        elif column.kind == "whole":
            table.whole[column.name] = _numbers(cells, column, path, 0).astype(np.int64, copy=False)
        else:
            table.seconds[column.name] = _numbers(cells, column, path, np.nan).astype(np.float64, copy=False)
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


def _numbers(cells: Cells, column: Column, path: Path, nothing: float) -> IntArray | FloatArray:
    """Each value as a number, `nothing` where it is empty."""
    plain_P = cells.plain_numbers(column.name)
    if plain_P is not None and plain_P.max() <= column.high and (column.may_be_empty or plain_P.min() >= 0):
        return np.where(plain_P < 0, nothing, plain_P) if plain_P.min() < 0 else plain_P
    values = cells.text(column.name)
    filled = [value or "0" for value in values]
    try:
        found = _all_numbers(filled, column)
    except ValueError:
        _refuse_values(values, [_is_bad(value, column) for value in filled], column, path)
        raise  # cannot be: then no value is bad by itself
    if not column.may_be_empty:
        _refuse_values(values, [False] * len(values), column, path)
    return np.array([number if value else nothing for value, number in zip(values, found, strict=True)])


def _all_numbers(values: list[str], column: Column) -> list[float]:
    """All at once, which is fast; ValueError if one is bad."""
    if not set("".join(values)) <= _SPELLED[column.kind]:
        raise ValueError("other characters")
    found: list[float] = list(map(int if column.kind == "whole" else float, values))
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
        problem = f"bad value {value[:SHOWN]!r}" if value else "the value is empty"
        refuse(bad, InputError(problem, file=path, field=column.name, expected=column.expected))


def refuse(bad: Sequence[bool] | BoolArray, error: InputError) -> None:
    """Raise `error` for the first row that is bad, with that row's number in the file."""
    if np.any(bad):
        row = int(np.argmax(bad)) + 2
        raise InputError(error.problem, file=error.file, row=row, field=error.field, expected=error.expected)
