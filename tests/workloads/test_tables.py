"""Tables as files: read by another library, and back."""

from __future__ import annotations

import csv as reader
import io
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from arro3.core import Array
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.errors import InputError
from pilotage.workloads import tables
from pilotage.workloads.parquet_reading import ReadColumn, read_parquet


def table() -> dict[str, Array]:
    return {
        "pod": tables.texts(["a", None, ""]),
        "count": tables.wholes([1, None, -(2**62)]),
        "share": tables.numbers([0.5, None, float("nan")]),
        "placed": tables.flags([True, False, True]),
        "devices": tables.lists_of_wholes([[0, 3], [], [7]]),
        "seen": tables.figures(np.arange(6, dtype=np.float32).reshape(3, 2)[:, ::-1]),
        "mask": tables.figures(np.array([[True, False]] * 3)),
        "action": tables.figures(np.array([2, 1, 0], np.int32)),
    }


def test_others_read_what_was_written() -> None:
    frame = pl.read_parquet(io.BytesIO(tables.parquet(table())))
    assert frame.to_dict(as_series=False) == {
        "pod": ["a", None, ""],
        "count": [1, None, -(2**62)],
        "share": [0.5, None, None],
        "placed": [True, False, True],
        "devices": [[0, 3], [], [7]],
        "seen": [[1, 0], [3, 2], [5, 4]],
        "mask": [[True, False]] * 3,
        "action": [2, 1, 0],
    }
    wanted = [pl.String, pl.Int64, pl.Float64, pl.Boolean, pl.List(pl.Int64), pl.List(pl.Float32), pl.List(pl.Boolean)]
    assert frame.dtypes == [*wanted, pl.Int32]


def test_the_same_table_is_the_same_bytes() -> None:
    assert tables.parquet(table()) == tables.parquet(table())


def test_a_table_without_rows_keeps_its_columns() -> None:
    empty = tables.parquet({"pod": tables.texts([]), "devices": tables.lists_of_wholes([])})
    assert dict(pl.read_parquet(io.BytesIO(empty)).schema) == {"pod": pl.String, "devices": pl.List(pl.Int64)}


@pytest.mark.parametrize("by", ["pilotage", "polars"])
def test_reads_named_columns(tmp_path: Path, by: str) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(tables.parquet(table()))
    if by == "polars":
        pl.read_parquet(path).write_parquet(path)
    assert read_parquet(path, ["devices", "pod", "absent"]) == {
        "devices": ReadColumn("List(Int64)", [[0, 3], [], [7]]),
        "pod": ReadColumn("String", ["a", None, ""]),
    }
    assert read_parquet(path, ["action"])["action"].kind == "Int32"


@pytest.mark.parametrize("place", [4, 60, -60, -9])
def test_a_damaged_file_is_an_input_error_and_no_more(tmp_path: Path, place: int) -> None:
    """Some damages end the process of the reader, whichever library it is."""
    data = bytearray(tables.parquet(table()))
    data[place : place + 4] = b"\xff\xff\xff\x7f"
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be read"):
        read_parquet(path, ["pod", "count", "devices"])


def test_rows_as_csv() -> None:
    row = {"a": 'x,"y"', "b": None, "c": True, "d": "", "e": 3, "f": 0.1}
    assert tables.csv(list("abcdef"), [row]) == b'a,b,c,d,e,f\n"x,""y""",,true,"",3,0.1\n'
    assert tables.csv(("a", "b"), []) == b"a,b\n"


@given(st.floats(allow_infinity=False))
def test_numbers_are_spelled_as_in_earlier_files(value: float) -> None:
    data = io.BytesIO()
    pl.DataFrame({"value": [value]}).write_csv(data)
    assert f"value\n{tables.decimal(value)}\n" == data.getvalue().decode()
    assert math.isnan(value) or float(tables.decimal(value)) == value


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_texts_are_spelled_as_in_earlier_files(values: list[str]) -> None:
    data = io.BytesIO()
    pl.DataFrame({"a": values}, schema={"a": pl.String}).write_csv(data)
    written = tables.csv(["a"], [{"a": value} for value in values])
    assert written == data.getvalue()
    assert [row[0] for row in reader.reader(io.StringIO(written.decode(), newline=""))][1:] == values
