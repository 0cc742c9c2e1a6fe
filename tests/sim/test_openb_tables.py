"""Load columns: which decisions fall into one, and how each figure is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.kernels.episode import Tape
from pilotage.kernels.meters import AMOUNTS, GPU_USED, METERS
from pilotage.sim.openb_tables import openb_tables, round_decimal


def tape(arrived: list[int], used: list[float], amounts: list[list[float]] | None = None) -> Tape:
    meter_PM = np.zeros((len(arrived), len(METERS)))
    meter_PM[:, GPU_USED] = used
    if amounts is not None:
        meter_PM[:, AMOUNTS : AMOUNTS + 7] = amounts
    return Tape(meter_PM, np.array(arrived, np.int64), np.zeros(0, np.int64))


def test_a_column_is_the_mean_of_the_decisions_whose_load_rounds_to_it() -> None:
    # 10 GPUs: 100 milli are one percent. 0.4 -> 0; 0.6, 1.4 -> 1; 1.6 -> 2.
    tables = openb_tables(tape([40, 60, 140, 160], [10, 20, 40, 70]), 10, 0.02)
    assert tables.allocation_L.tolist() == [0.1, 0.3, 0.7]


def test_halves_go_to_the_even_column() -> None:
    # 0.5 -> 0, 1.5 -> 2, 2.5 -> 2
    tables = openb_tables(tape([50, 150, 250], [10, 20, 40]), 10, 0.02)
    assert tables.allocation_L[[0, 2]].tolist() == [0.1, 0.3]


def test_an_empty_column_takes_its_neighbours_and_without_them_nothing() -> None:
    tables = openb_tables(tape([100, 300, 800], [10, 30, 90]), 10, 0.08)
    assert tables.allocation_L[2] == 0.2  # of columns 1 and 3
    assert tables.allocation_L[[0, 4]].tolist() == [0.1, 0.3]
    assert np.isnan(tables.allocation_L[[5, 6]]).all()
    assert tables.allocation_L[7] == 0.9


def test_fragmentation_leaves_out_what_is_satisfied() -> None:
    amounts = [[1.0, 2.0, 50.0, 3.0, 4.0, 5.0, 6.0]]
    tables = openb_tables(tape([0], [0], amounts), 1, 0.0)
    assert tables.fragmentation_L.tolist() == [2.1]  # 21 of 1000 milli
    assert tables.fragmentation_ratio_L.tolist() == [29.58]  # 21 of 71


def test_a_full_cluster_is_not_fragmented() -> None:
    tables = openb_tables(tape([1000], [1000], [[0.0] * 7]), 1, 1.0)
    assert tables.last(tables.fragmentation_ratio_L) == 0.0


def test_columns_follow_the_load_or_what_arrived() -> None:
    assert len(openb_tables(tape([1000], [0]), 1, 1.3).allocation_L) == 131
    assert len(openb_tables(tape([420], [0]), 1, 0.0).allocation_L) == 43


def test_the_last_column_with_a_value_is_the_figure_of_a_run() -> None:
    tables = openb_tables(tape([100, 200], [10, 20]), 10, 0.05)
    assert tables.last(tables.allocation_L) == 0.2


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.125, 0.12), (0.375, 0.38), (2.675, 2.67), (1.005, 1.0), (0.285, 0.28), (866232.545, 866232.55), (1e9, 1e9)],
)
def test_two_decimals_are_those_of_printing(value: float, rounded: float) -> None:
    assert float(f"{value:.2f}") == rounded
    assert round_decimal(np.array([value])).tolist() == [rounded]
