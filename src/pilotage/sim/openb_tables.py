"""The three published tables of one OpenB run: allocation, fragmentation, fragmentation of what is idle.

Column k is a mean over the decisions at which the arrived load rounds to k percent, with the rounding of the published
scripts: figures per decision to two decimals first, then numpy's mean, then (allocation, fragmentation) two decimals
by numpy's rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotage.kernels.episode import Tape
from pilotage.kernels.meters import AMOUNTS, GPU_USED
from pilotage.model.workload import FloatArray

MOST_LOAD = 1000  # percent; all that arrives beyond goes into the last column


@dataclass(frozen=True, slots=True)
class OpenbTables:
    """Axis L: arrived load in percent, 0..; NaN where no decision falls into a column or its neighbours."""

    allocation_L: FloatArray
    fragmentation_L: FloatArray
    fragmentation_ratio_L: FloatArray

    def last(self, column_L: FloatArray) -> float:
        """The last load column that has a value."""
        return float(column_L[np.flatnonzero(~np.isnan(column_L))[-1]])


def openb_tables(tape: Tape, total_gpus: int, load: float) -> OpenbTables:
    amount_P7 = tape.meter_PM[:, AMOUNTS : AMOUNTS + 7]
    # Sums in the published order: numpy's own would add pairwise.
    frag_P = amount_P7[:, 0] + amount_P7[:, 1]
    for k in (3, 4, 5, 6):
        frag_P = frag_P + amount_P7[:, k]
    idle_P = amount_P7[:, 0]
    for k in range(1, 7):
        idle_P = idle_P + amount_P7[:, k]
    ratio_P = np.divide(100.0 * frag_P, idle_P, out=np.zeros_like(frag_P), where=idle_P > 0)
    arrive_P = np.array([round(value, 0) for value in (tape.arrived_P / total_gpus / 10.0).tolist()])
    arrive_P = np.minimum(arrive_P, MOST_LOAD)
    alloc_P = round_decimal(tape.meter_PM[:, GPU_USED] / total_gpus / 10.0)
    frag_P, ratio_P = round_decimal(frag_P), round_decimal(ratio_P)
    columns = min(round(100 * load), MOST_LOAD) + 1 if load > 0 else int(arrive_P[-1]) + 1
    tables = np.full((3, columns), np.nan)
    order = np.searchsorted(arrive_P, np.arange(-1, columns + 2))  # arrived load never falls
    for k in range(columns):
        low, high = order[k + 1], order[k + 2]
        if low == high:
            low, high = order[k], np.searchsorted(arrive_P, k + 1, side="right")
        if low < high:
            tables[0, k] = np.round(np.mean(alloc_P[low:high]), 2)
            tables[1, k] = np.round(100 * np.mean(frag_P[low:high]) / 1000 / total_gpus, 2)
            tables[2, k] = np.mean(ratio_P[low:high])
    return OpenbTables(*tables)


def round_decimal(values: FloatArray) -> FloatArray:
    """Two decimals, correctly rounded as by printing (Python's round), fast: only near halves need care."""
    cents = values * 100.0
    rounded: FloatArray = np.rint(cents) / 100.0
    near = np.flatnonzero(np.abs(cents - np.floor(cents) - 0.5) < 1e-6)
    for i in near:
        rounded[i] = round(float(values[i]), 2)
    return rounded
