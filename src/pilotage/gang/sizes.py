"""Sizes of the work of coming supersteps: what was forecast at each of them, and what came.

The published format: a file per series, a row per superstep, a column per step ahead. Row r, column h is about r + h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pilotage.gang.csv_files import read_matrix
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FloatArray


@dataclass(frozen=True)
class Sizes:
    """Of each superstep (T) and task (J): forecasts and actual sizes h steps ahead."""

    forecast_THJ: FloatArray
    actual_THJ: FloatArray

    def perfect(self) -> Sizes:
        """Forecasts that come true."""
        return replace(self, forecast_THJ=self.actual_THJ)

    def rows(self, first: int, length: int) -> Sizes:
        if not 0 <= first < first + length <= len(self.actual_THJ):
            raise InputError(
                f"supersteps {first} to {first + length - 1} asked for",
                expected=f"within 0 to {len(self.actual_THJ) - 1}",
            )
        rows = slice(first, first + length)
        return Sizes(self.forecast_THJ[rows], self.actual_THJ[rows])

    @property
    def horizon(self) -> int:
        return int(self.forecast_THJ.shape[1])


def scaled_by_column(value_TH: FloatArray, low: float, high: float) -> FloatArray:
    """Each column's least and largest value become `low` and `high`, as published."""
    least_H, most_H = value_TH.min(axis=0), value_TH.max(axis=0)
    range_H = np.where(most_H > least_H, most_H - least_H, 1.0)
    scaled_TH: FloatArray = low + (high - low) * (value_TH - least_H) / range_H
    return scaled_TH


def read_published_sizes(directory: Path, series: Sequence[str], low: float, high: float) -> Sizes:
    """Forecasts and actual values of the named series, each column scaled by its own least and largest value."""
    found: dict[str, list[FloatArray]] = {"forecasts": [], "actual": []}
    for kind, tables in found.items():
        shapes: dict[str, tuple[int, ...]] = {}
        for name in series:
            path = directory / kind / f"{name}.csv"
            if not path.exists():
                known = [other.stem for other in (directory / kind).glob("*.csv")]
                raise UnknownNameError("series", name, known, file=directory / kind)
            table_TH = read_matrix(path)
            shapes[name] = table_TH.shape
            if table_TH.shape != shapes[series[0]]:
                raise InputError(
                    f"{table_TH.shape[0]} rows and {table_TH.shape[1]} columns",
                    file=path,
                    expected="as many as of {}: {} and {}".format(series[0], *shapes[series[0]]),
                )
            tables.append(scaled_by_column(table_TH, low, high))
    forecast_THJ, actual_THJ = (np.stack(tables, axis=2) for tables in found.values())
    if forecast_THJ.shape != actual_THJ.shape:
        raise InputError(f"forecasts have {len(forecast_THJ)} rows, actual values {len(actual_THJ)}", file=directory)
    return Sizes(forecast_THJ, actual_THJ)
