"""Tables as bytes of files: columns as Parquet, rows as CSV. The same bytes for the same table.

Parquet is written by arro3, which is imported when it is needed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from arro3.core import Array

COMPRESSION = "zstd(3)"

# Columns


def texts(values: Sequence[str | None]) -> Array:
    from arro3.core import Array, DataType

    return Array(values, DataType.string())


def wholes(values: Sequence[int | None]) -> Array:
    from arro3.core import Array, DataType

    return Array(values, DataType.int64())


def numbers(values: Iterable[float | None]) -> Array:
    """NaN is no value."""
    from arro3.core import Array, DataType

    return Array([None if value is None or isnan(value) else value for value in values], DataType.float64())


def flags(values: Sequence[bool]) -> Array:
    from arro3.core import Array, DataType

    return Array(values, DataType.bool())


def figures(values: npt.NDArray[np.generic]) -> Array:
    """Of the array's own type; each row of a matrix is a list."""
    from arro3.core import Array, list_array

    flat = Array.from_numpy(np.ascontiguousarray(values).reshape(-1))
    if values.ndim == 1:
        return flat
    rows, width = values.shape
    return list_array(Array.from_numpy(np.arange(0, (rows + 1) * width, width, dtype=np.int32)), flat)


def lists_of_wholes(rows: Sequence[Sequence[int]]) -> Array:
    from arro3.core import Array, list_array

    ends = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return list_array(Array.from_numpy(ends), wholes([value for row in rows for value in row]))


def parquet(columns: Mapping[str, Array]) -> bytes:
    from arro3.core import Table
    from arro3.io import write_parquet

    data = io.BytesIO()
    write_parquet(Table.from_arrays(list(columns.values()), names=list(columns)), data, compression=COMPRESSION)
    return data.getvalue()


# Rows


def csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> bytes:
    """Nothing for None, "" for a text without characters: the two can be told apart."""
    lines = [names, *([cell(row[name]) for name in names] for row in rows)]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return decimal(value)
    text = str(value)
    quoted = not text or any(character in text for character in ',"\n\r')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def decimal(value: float) -> str:
    """The shortest text that reads back the same; in the spelling of files written before."""
    text = repr(value)
    mantissa, small, exponent = text.partition("e-")
    if not small:
        return "NaN" if text == "nan" else text
    return np.format_float_positional(value, trim="-") if exponent == "05" else f"{mantissa}e-{int(exponent)}"
